package io.rejoin.it.bench;

import io.rejoin.it.Outcome;
import io.rejoin.it.Recipe;
import io.rejoin.it.StandaloneCluster;
import io.rejoin.it.StockRun;
import io.rejoin.it.Strike;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * From the SIGKILL of an executor to training that goes on, on a Spark cluster, taken apart; with
 * and without a slot to spare; and the stock estimator under the same kill beside it. Told as
 * information: most of it is Spark's, and {@link OwnPartBench} has the bar for ours.
 */
final class RecoveryBench {
  private static final int WORKERS = 3;
  private static final int ROUNDS = 60;
  private static final Duration STOCK_LIMIT = Duration.ofSeconds(60);
  private static final long LIMIT_SECONDS = 900;

  /** So many fits under a kill in each setting: each costs ten seconds or more. */
  private static final int MOST_REPETITIONS = 3;

  private final Report report;
  private final Options options;

  RecoveryBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException {
    for (int spare = 1; spare >= 0; spare--) {
      String name = spare == 0 ? "no spare slot" : "a spare slot";
      if (options.wants(name)) {
        recover(spare, name);
      }
    }
  }

  private void recover(int spare, String name) throws IOException {
    report.title(
        "An executor of " + WORKERS + " is killed in round " + ROUNDS / 2 + ", " + name + "; ms");
    int slots = WORKERS + spare;
    Strike strike = Strike.parse("1@" + ROUNDS / 2, WORKERS, ROUNDS).get(0);
    try (StandaloneCluster cluster = StandaloneCluster.start("bench-recovery", slots)) {
      Map<String, String> settings = new LinkedHashMap<>();
      settings.put("spark.cores.max", Integer.toString(slots));
      Map<String, String> all = new LinkedHashMap<>(cluster.configuration());
      all.putAll(settings);
      all.put("log4j2.configurationFile", "rejoin-it-log4j2.properties");
      try (WorkerProcess driver = WorkerProcess.start("driver", cluster.work(), "1g", all)) {
        int repetitions = Math.min(options.pairs(), MOST_REPETITIONS);
        Work work =
            new RecoveryWork(
                cluster.work().folder("executors").toString(),
                WORKERS,
                slots,
                ROUNDS,
                strike,
                repetitions);
        List<?> measured = (List<?>) WorkerProcess.await(driver.ask(work), LIMIT_SECONDS);
        for (Map.Entry<String, List<Double>> part : RecoveryWork.byPart(measured).entrySet()) {
          report.add(
              Figure.alone(
                  "recovery", name + ": " + part.getKey(), "ms", part.getValue(), Double.NaN));
        }
      }
      stock(cluster, strike, settings, name);
    }
  }

  private void stock(
      StandaloneCluster cluster, Strike strike, Map<String, String> settings, String name)
      throws IOException {
    List<Outcome> outcomes =
        new StockRun(cluster, Recipe.BINARY, WORKERS, ROUNDS, STOCK_LIMIT, line -> {})
            .undisturbedAndStruck(List.of(strike), settings);
    String[] which = {"undisturbed fit", "struck fit"};
    for (int i = 0; i < outcomes.size(); i++) {
      Outcome outcome = outcomes.get(i);
      if (outcome.trouble() != null) {
        report.say("  " + name + ": stock estimator, " + which[i] + ": " + outcome.trouble());
      } else {
        report.add(
            Figure.alone(
                "recovery",
                name + ": stock estimator, " + which[i],
                "ms",
                List.of((double) outcome.millis()),
                Double.NaN));
      }
    }
  }
}
