package io.rejoin.it.bench;

import io.rejoin.it.StandaloneCluster;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The whole {@code fit} on a Spark cluster, with everything that Rejoin adds to it (input stored
 * and replicated, a gang, a checkpoint per version), against the stock estimator's. Reported
 * without a bar.
 */
final class FitBench {
  private static final int WORLD = 3;
  private static final long LIMIT_SECONDS = 600;

  private FitBench() {}

  static void run() throws IOException {
    try (StandaloneCluster cluster = StandaloneCluster.start("bench-fit", WORLD)) {
      fit(cluster, new Shape(20_000, 10, WORLD, Bench.rounds(100)));
      fit(cluster, new Shape(100_000, 50, WORLD, Bench.rounds(20)));
    }
  }

  @SuppressWarnings("unchecked")
  private static void fit(StandaloneCluster cluster, Shape shape) throws IOException {
    String name = "fit: " + shape + ", " + shape.rounds() + " rounds";
    if (!Bench.wants(name)) {
      return;
    }
    Map<String, String> settings = new LinkedHashMap<>(cluster.configuration());
    settings.put("spark.cores.max", Integer.toString(WORLD));
    settings.put("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    try (WorkerProcess driver =
        WorkerProcess.start(
            "driver-" + shape.rows(), Host.HERE, Host.HERE, cluster.work(), "1g", settings)) {
      Object answer =
          WorkerProcess.await(driver.ask(new FitWork(shape, Bench.pairs())), LIMIT_SECONDS);
      Bench.report(name, "ms", (List<Pairs.Pair<Double>>) answer, millis -> millis, null);
    }
  }
}
