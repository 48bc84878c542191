package io.rejoin.it.bench;

import io.rejoin.NativeLibrary;
import java.util.List;
import java.util.function.ToDoubleFunction;

/**
 * {@code make bench} and {@code make bench-fit}: what only a real XGBoost and a real Spark can
 * show, ours and the stock one in pairs, as {@link Figures}. System properties choose: {@code
 * bench} ({@code training}, {@code fit}, or {@code rows}: fits of few and of many), {@code pairs}
 * (9), {@code only} (a configuration is measured if its name has this in it; an underscore is a
 * space), and {@code rounds} of a training (each configuration's own).
 */
public final class Bench {
  private static final Figures FIGURES = new Figures("xgboost", "stock");
  private static final int PAIRS = Integer.getInteger("pairs", 9);
  private static final String ONLY = System.getProperty("only", "").replace('_', ' ');

  private Bench() {}

  /** No arguments. */
  public static void main(String[] arguments) throws Exception {
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    System.setProperty("rejoin.it.log", "build/bench/driver.log");
    NativeLibrary.logLevel("error");
    String which = System.getProperty("bench", "training");
    if (PAIRS < 1) {
      refuse(which);
    }
    switch (which) {
      case "training" -> new TrainingBench().run();
      case "fit" -> FitBench.run();
      case "rows" -> FitBench.rows();
      default -> refuse(which);
    }
    System.exit(0);
  }

  private static void refuse(String which) {
    System.err.println(
        "expected BENCH=training, fit or rows, and PAIRS of at least 1; saw "
            + which
            + ", "
            + PAIRS);
    System.exit(2);
  }

  static int pairs() {
    return PAIRS;
  }

  static boolean wants(String config) {
    return config.contains(ONLY);
  }

  static int rounds(int otherwise) {
    return Integer.getInteger("rounds", 0) > 0 ? Integer.getInteger("rounds") : otherwise;
  }

  /** {@link Figures#print}, beside the stock one. */
  static <T> void report(
      String config,
      String unit,
      List<Pairs.Pair<T>> pairs,
      ToDoubleFunction<T> value,
      Double bar) {
    FIGURES.print(config, unit, pairs, value, bar);
  }
}
