package io.rejoin.it.bench;

import io.rejoin.it.StandaloneCluster;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * {@code make bench-fit}: the whole {@code fit} on a Spark cluster, from rows in Parquet to the
 * model, against the stock estimator's: how long, also for each row, and the most memory that the
 * executors had.
 */
final class FitBench {
  private static final int WORLD = 3;
  private static final long LIMIT_SECONDS = 6_000;
  private static final double TIME = 0.95;
  private static final double TIME_OF_SMALL = 1.00;

  /** Of XGBoost until 3.2, whose rounds don't gain from Rejoin's collectives as those after do. */
  private static final double TIME_OF_OLDER = 1.05;

  private static final double MEMORY = 1.10;

  private FitBench() {}

  static void run() throws IOException {
    try (StandaloneCluster cluster = StandaloneCluster.start("bench-fit", WORLD)) {
      fit(cluster, new Shape(20_000, 10, WORLD, Bench.rounds(100)), 0, TIME_OF_SMALL, "1g");
      fit(cluster, new Shape(1_500_000, 28, WORLD, Bench.rounds(40)), 0, TIME, "1g");
      fit(cluster, new Shape(1_500_000, 28, WORLD, Bench.rounds(150)), 0, TIME, "1g");
      fit(cluster, new Shape(200_000, 200, WORLD, Bench.rounds(40)), 0, TIME, "2g");
      // The stock estimator makes dense rows of them, 32,768 at a time.
      fit(cluster, new Shape(100_000, 5_000, WORLD, Bench.rounds(20)), 50, TIME, "4g");
    }
  }

  /** Whether a row costs the same however many there are. */
  static void rows() throws IOException {
    try (StandaloneCluster cluster = StandaloneCluster.start("bench-rows", WORLD)) {
      for (int rows : new int[] {200_000, 500_000, 1_000_000, 2_000_000, 5_000_000}) {
        fit(cluster, new Shape(rows, 28, WORLD, Bench.rounds(20)), 0, null, "2g");
      }
    }
  }

  /** {@code bar}: of the time; null for none, and none of the memory. */
  @SuppressWarnings("unchecked")
  private static void fit(
      StandaloneCluster cluster, Shape shape, int present, Double bar, String memory)
      throws IOException {
    String name =
        "fit: " + shape + (present > 0 ? ", sparse" : "") + ", " + shape.rounds() + " rounds";
    if (!Bench.wants(name)) {
      return;
    }
    Map<String, String> settings = new LinkedHashMap<>(cluster.configuration());
    settings.put("spark.cores.max", Integer.toString(WORLD));
    settings.put("spark.executor.memory", memory);
    // The collector that a JVM chooses by itself on a machine of this size.
    settings.computeIfPresent(
        "spark.executor.extraJavaOptions",
        (key, options) -> options.replace("-XX:+UseSerialGC", "-XX:+UseG1GC"));
    // A file is a rank's rows: those of a shuffle come in another order each time, in which two
    // fits of the stock estimator differ, too.
    settings.put("spark.sql.files.maxPartitionBytes", "4g");
    settings.put("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    String folder =
        cluster.work().folder("rows-" + shape.rows() + "-" + shape.columns()).toString();
    try (WorkerProcess driver =
        WorkerProcess.start(
            "driver-" + shape.rows() + "-" + shape.rounds(),
            Host.HERE,
            Host.HERE,
            cluster.work(),
            "1g",
            settings)) {
      List<Pairs.Pair<FitWork.Fit>> answer =
          (List<Pairs.Pair<FitWork.Fit>>)
              WorkerProcess.await(
                  driver.ask(new FitWork(shape, present, folder, cluster.mark(), Bench.pairs())),
                  LIMIT_SECONDS);
      boolean isOlder = System.getProperty("bench.older") != null;
      Double wanted = bar != null && isOlder ? (Double) TIME_OF_OLDER : bar;
      Double most = bar == null ? null : (Double) MEMORY;
      Bench.report(name, "ms", answer, FitWork.Fit::millis, wanted);
      Bench.report(name + ", a row", "ns", answer, fit -> fit.millis() * 1e6 / shape.rows(), null);
      Bench.report(name + ", executors", "MB", answer, FitWork.Fit::megabytes, most);
    }
  }
}
