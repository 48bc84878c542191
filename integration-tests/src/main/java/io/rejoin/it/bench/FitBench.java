package io.rejoin.it.bench;

import io.rejoin.it.StandaloneCluster;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The whole {@code fit} on a Spark cluster, with everything that Rejoin adds to it (input stored
 * and replicated, a gang, a checkpoint per version), against the stock estimator's. Told as
 * information, without a bar.
 */
final class FitBench {
  private static final int WORLD = 3;
  private static final long LIMIT_SECONDS = 600;

  private final Report report;
  private final Options options;

  FitBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException {
    report.title("The whole fit on Spark, " + WORLD + " executors, milliseconds");
    try (StandaloneCluster cluster = StandaloneCluster.start("bench-fit", WORLD)) {
      fit(cluster, new Shape(20_000, 10, WORLD, options.rounds(100)));
      fit(cluster, new Shape(100_000, 50, WORLD, options.rounds(20)));
    }
  }

  private void fit(StandaloneCluster cluster, Shape shape) throws IOException {
    String name = shape + ", " + shape.rounds() + " rounds";
    if (!options.wants(name)) {
      return;
    }
    Map<String, String> settings = new LinkedHashMap<>(cluster.configuration());
    settings.put("spark.cores.max", Integer.toString(WORLD));
    settings.put("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    try (WorkerProcess driver =
        WorkerProcess.start("driver-" + shape.rows(), cluster.work(), "1g", settings)) {
      List<Double> ours = new ArrayList<>();
      List<Double> stock = new ArrayList<>();
      int same = 0;
      Object answer =
          WorkerProcess.await(driver.ask(new FitWork(shape, options.pairs())), LIMIT_SECONDS);
      for (Object one : (List<?>) answer) {
        FitWork.Pair pair = (FitWork.Pair) one;
        ours.add(pair.ours());
        stock.add(pair.stock());
        same += pair.same() ? 1 : 0;
      }
      report.add(Figure.paired("fit", name, "ms", ours, "stock", stock, Double.NaN));
      report.say("    same model in " + same + " of " + ours.size() + " pairs");
    }
  }
}
