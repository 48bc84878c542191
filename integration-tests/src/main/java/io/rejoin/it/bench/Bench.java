package io.rejoin.it.bench;

import io.rejoin.NativeLibrary;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;

/**
 * {@code make bench}: what only a real XGBoost and a real Spark can show, ours and the stock one in
 * pairs. Each figure is printed as a line of JSON, which {@code rejoin-bench report} makes a table
 * of. System properties choose: {@code bench} ({@code training} or {@code fit}; both by default),
 * {@code pairs} (9), {@code only} (a configuration is measured if its name has this in it; an
 * underscore is a space), and {@code rounds} of a training (each configuration's own).
 */
public final class Bench {
  private static final int PAIRS = Integer.getInteger("pairs", 9);
  private static final String ONLY = System.getProperty("only", "").replace('_', ' ');

  private Bench() {}

  /** No arguments. */
  public static void main(String[] arguments) throws Exception {
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    System.setProperty("rejoin.it.log", "build/bench/driver.log");
    NativeLibrary.logLevel("error");
    String which = System.getProperty("bench", "");
    if (PAIRS < 1 || !List.of("", "training", "fit").contains(which)) {
      System.err.println(
          "expected BENCH=training or fit, and PAIRS of at least 1; saw " + which + ", " + PAIRS);
      System.exit(2);
    }
    if (!which.equals("fit")) {
      new TrainingBench().run();
    }
    if (!which.equals("training")) {
      FitBench.run();
    }
    System.exit(0);
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

  /**
   * Prints a figure: the values of all pairs. Ratios against the stock one are held against the
   * bar, if there is one.
   */
  static <T> void report(
      String config,
      String unit,
      List<Pairs.Pair<T>> pairs,
      ToDoubleFunction<T> value,
      Double bar) {
    System.out.printf(
        Locale.ROOT,
        "{\"config\":\"%s\",\"unit\":\"%s\",\"ours\":%s,\"stock\":%s,\"bar\":%s}%n",
        config,
        unit,
        pairs.stream().map(pair -> value.applyAsDouble(pair.ours())).collect(Collectors.toList()),
        pairs.stream().map(pair -> value.applyAsDouble(pair.stock())).collect(Collectors.toList()),
        bar);
  }
}
