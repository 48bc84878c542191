package io.rejoin.it;

import io.rejoin.RejoinException;
import org.apache.spark.sql.SparkSession;

/**
 * One release of XGBoost, whichever is on the class path: the stock estimator's model, ours, and
 * ours with an executor killed in between, on a real cluster. Prints one line; the status is 0 when
 * all three are the same.
 */
public final class Smoke {
  private static final int WORKERS = 3;
  private static final int ROUNDS = 10;

  /** Without sampling, so that the model doesn't depend on when checkpoints are taken. */
  private static final Recipe RECIPE = Recipe.COUNT;

  private static final String KILL = new KillOrder(1, ROUNDS / 2, 10_000, 0).rule() + ",do=kill";

  private static final String EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions";

  private Smoke() {}

  /**
   * Takes no arguments.
   *
   * @param arguments none
   */
  public static void main(String[] arguments) {
    int status;
    try (StandaloneCluster cluster = StandaloneCluster.start("smoke", WORKERS + 1)) {
      status = run(cluster);
    }
    System.exit(status);
  }

  private static int run(StandaloneCluster cluster) {
    SparkSession.Builder builder = SparkSession.builder().appName("rejoin smoke");
    cluster.configuration().forEach(builder::config);
    String untested = "rejoin.xgboost.untested";
    if (System.getProperty(untested) != null) {
      String option = " -D" + untested + "=" + System.getProperty(untested);
      String others = cluster.configuration().getOrDefault(EXECUTOR_OPTIONS, "");
      builder.config(EXECUTOR_OPTIONS, others + option);
    }
    SparkSession spark = builder.config("spark.cores.max", WORKERS + 1).getOrCreate();
    String versions =
        "XGBoost "
            + RejoinRun.xgboostVersion()
            + ", Scala "
            + scala.util.Properties.versionNumberString()
            + ", Spark "
            + spark.version()
            + ": ";
    try {
      Executors.await(spark, WORKERS + 1);
      String calm = run(spark).train().digest();
      Outcome struck = run(spark).fault(KILL).train();
      String stock =
          Digest.of(RECIPE.estimator(spark, WORKERS, ROUNDS).fit(RECIPE.data(spark, WORKERS)));
      boolean same = calm.equals(stock) && struck.digest().equals(stock);
      String kill = struck.trouble() == null ? "with one kill" : struck.trouble();
      System.out.printf(
          "%s%s: stock %.16s, ours %.16s, %s %.16s%n",
          versions,
          same ? "the same model" : "DIFFERENT MODELS",
          stock,
          calm,
          kill,
          struck.digest());
      return same && struck.trouble() == null ? 0 : 1;
    } catch (RejoinException refused) {
      System.out.println(versions + refused.code() + ": " + refused.text());
      return 1;
    } finally {
      spark.stop();
    }
  }

  private static RejoinRun run(SparkSession spark) {
    return new RejoinRun(spark, RECIPE, WORKERS, ROUNDS)
        .setting("spark.rejoin.checkpoint.rounds", "1");
  }
}
