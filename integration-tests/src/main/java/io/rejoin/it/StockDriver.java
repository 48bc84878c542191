package io.rejoin.it;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.IntConsumer;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.ml.Predictor;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A Spark application of its own that trains with the stock estimator, or without one in plain
 * Spark ({@link PlainTraining}), and reports what happens on its standard output, one fact per
 * line: {@code @@ kind key=value ...}. It runs as a child of {@link StockRun}, for two reasons:
 * XGBoost's own tracker prints each round to the process's output, from where the parent takes the
 * moment to kill; and a training that hangs can be ended.
 */
public final class StockDriver {
  /** How a line starts that is meant for the parent. */
  static final String PREFIX = "@@ ";

  /** Rounds of the short training that goes before each one that is compared, ours and stock. */
  static final int WARM_UP_ROUNDS = 10;

  /** How a run is called, before rank@round, in which that rank throws once in that round. */
  static final String THROWS = "throws:";

  /** The property that says that it trains in plain Spark. */
  static final String PLAIN = "rejoin.it.plain";

  private StockDriver() {}

  /**
   * Arguments: application id mark is set by the parent's settings; recipe, workers, rounds, then
   * the names of the runs in order. Spark's settings come as system properties, as Spark reads them
   * anyway.
   */
  public static void main(String[] arguments) {
    Recipe recipe = Recipe.valueOf(arguments[0]);
    int workers = Integer.parseInt(arguments[1]);
    int rounds = Integer.parseInt(arguments[2]);
    SparkSession spark = SparkSession.builder().appName("stock " + recipe).getOrCreate();
    report("session", "application=" + spark.sparkContext().applicationId());
    RunFacts facts = new Reported();
    spark.sparkContext().addSparkListener(facts);
    Executors.await(spark, workers);
    for (int run = 3; run < arguments.length; run++) {
      Executors.await(spark, workers);
      String name = arguments[run];
      KillOrder throwing =
          name.startsWith(THROWS)
              ? KillOrder.parse(name.substring(THROWS.length()), workers, rounds).get(0)
              : null;
      // Not reported: the first training of a JVM is slower than all others, and executors that
      // replace dead ones are new JVMs.
      Dataset<Row> data = recipe.data(spark, workers);
      Callable<String> fit;
      if (Boolean.getBoolean(PLAIN)) {
        Dataset<Row> some = recipe.warmUp(spark, workers);
        // A job for each round: the driver has to be warm, too.
        new PlainTraining(some, workers).train(rounds / 2, null, any -> {});
        IntConsumer hears = round -> report("round", "number=" + round);
        fit = () -> Digest.of(new PlainTraining(data, workers).train(rounds, throwing, hears));
      } else {
        recipe.estimator(spark, workers, WARM_UP_ROUNDS).fit(recipe.warmUp(spark, workers));
        Predictor<?, ?, ?> estimator = recipe.estimator(spark, workers, rounds);
        if (throwing != null) {
          ((XGBoostClassifier) estimator)
              .setCustomEval(new ThrowingMetric(throwing.rank(), throwing.round()));
        }
        fit = () -> Digest.of(estimator.fit(data));
      }
      fit(name, fit, facts, Executors.present(spark));
    }
    report("done");
    spark.stop();
    System.exit(0);
  }

  private static void fit(String run, Callable<String> fit, RunFacts facts, int present) {
    RunFacts.Counts before = facts.counts();
    report("fit.start", "run=" + run);
    long begin = System.currentTimeMillis();
    long start = System.nanoTime();
    try {
      String digest = fit.call();
      long millis = (System.nanoTime() - start) / 1_000_000;
      RunFacts.Counts counts = facts.counts().since(before);
      report(
          "fit.end",
          "run=" + run,
          "millis=" + millis,
          "digest=" + digest,
          "executors=" + counts.executorsAdded(),
          "executor.millis=" + counts.executorMillis(present, begin, begin + millis),
          "tasks=" + counts.tasksStarted(),
          "again=" + counts.bytesAgain());
    } catch (Exception failed) {
      // Spark throws checked ones, which Scala declares nowhere.
      failed.printStackTrace();
      report("fit.failed", "run=" + run, "reason=" + failed.getMessage());
    }
  }

  /** Reports executors and tasks as they come and go. */
  private static final class Reported extends RunFacts {
    @Override
    protected void taskStarted(
        int stage, int stageAttempt, int partition, int attempt, String executor) {
      report(
          "task",
          "stage=" + stage,
          "try=" + stageAttempt,
          "partition=" + partition,
          "attempt=" + attempt,
          "executor=" + executor);
    }

    @Override
    protected void executorAdded(String executor, String host) {
      report("executor.added", "executor=" + executor);
    }

    @Override
    protected void executorRemoved(String executor, String reason) {
      report("executor.removed", "executor=" + executor, "reason=" + reason);
    }
  }

  /** A line of words, none of which has a space in it. */
  private static void report(String... words) {
    String line =
        PREFIX
            + Arrays.stream(words)
                .map(word -> word.replaceAll("\\s+", "_"))
                .collect(Collectors.joining(" "));
    PrintStream out = System.out;
    synchronized (out) {
      out.println(line);
      out.flush();
    }
  }

  /** The settings of a session as the system properties of its driver. */
  static void configure(JavaProcess driver, Map<String, String> conf) {
    conf.forEach(driver::property);
  }
}
