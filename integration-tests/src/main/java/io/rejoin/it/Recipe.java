package io.rejoin.it;

import java.util.stream.Stream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import ml.dmlc.xgboost4j.scala.spark.XGBoostEstimator;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRanker;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRegressor;
import org.apache.spark.ml.Predictor;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/**
 * What is trained: data, estimator and its settings. The stock estimator that it makes is the one
 * that ours goes around.
 */
public enum Recipe {
  /** Did a person go to a doctor at all? With sampling of rows and columns. */
  BINARY,
  /** The same with the {@code approx} method, which sketches in every round. */
  APPROX,
  /** How many visits, a count. */
  COUNT,
  /** None, few, many. */
  MULTICLASS,
  /** The dart booster, which drops earlier trees. */
  DART,
  /** With an evaluation set and early stopping. */
  EARLY_STOPPING,
  /** Ranks the years of one plan against each other; the groups are partitioned beforehand. */
  RANKING;

  /** The seed of everything random in the training. */
  private static final long SEED = 7;

  /** The rows, not yet partitioned for so many workers unless the recipe needs it. */
  public Dataset<Row> data(SparkSession spark, int workers) {
    switch (this) {
      case COUNT:
        return Randhie.visits(spark);
      case MULTICLASS:
        return Randhie.fewOrMany(spark);
      case EARLY_STOPPING:
        return Randhie.anyVisit(spark).where(functions.col("disea").leq(20));
      case RANKING:
        return Randhie.fewOrMany(spark)
            .withColumn("query", functions.expr("cast(disea * 10 as int)"))
            .repartitionByRange(workers, functions.col("query"))
            .sortWithinPartitions("query", Randhie.FEATURES)
            .cache();
      default:
        return Randhie.anyVisit(spark);
    }
  }

  /**
   * Rows in two partitions for each worker: every executor reads and divides some of them, as the
   * one does that happens to get the rows of a training.
   */
  public Dataset<Row> warmUp(SparkSession spark, int workers) {
    int parts = 2 * workers;
    // The same rows in each: Spark makes and compiles its code once.
    Dataset<Row> part = Randhie.some(data(spark, workers), parts);
    return Stream.generate(() -> part).limit(parts).reduce(Dataset::union).orElseThrow();
  }

  /** A stock estimator. {@code spark}: for the recipes that hold an evaluation set. */
  public Predictor<?, ?, ?> estimator(SparkSession spark, int workers, int rounds) {
    switch (this) {
      case COUNT:
        {
          XGBoostRegressor estimator = new XGBoostRegressor();
          estimator.setObjective("count:poisson");
          return common(estimator, workers, rounds);
        }
      case RANKING:
        {
          XGBoostRanker estimator = new XGBoostRanker();
          estimator.setGroupCol("query");
          return common(estimator, workers, rounds);
        }
      default:
        break;
    }
    XGBoostClassifier estimator = new XGBoostClassifier();
    switch (this) {
      case APPROX:
        estimator.setTreeMethod("approx");
        estimator.setSubsample(0.8);
        break;
      case DART:
        estimator.setBooster("dart");
        estimator.setRateDrop(0.1);
        break;
      case MULTICLASS:
        estimator.setObjective("multi:softprob");
        estimator.setColsampleBylevel(0.7);
        break;
      case EARLY_STOPPING:
        estimator.setEvalDataset(Randhie.anyVisit(spark).where(functions.col("disea").gt(20)));
        estimator.setEvalMetric("auc");
        estimator.setNumEarlyStoppingRounds(5);
        break;
      default:
        estimator.setSubsample(0.8);
        estimator.setColsampleBytree(0.7);
        break;
    }
    return common(estimator, workers, rounds);
  }

  private static <E extends Predictor<?, ?, ?>> E common(E estimator, int workers, int rounds) {
    XGBoostEstimator<?, ?> settings = (XGBoostEstimator<?, ?>) estimator;
    settings.setNumWorkers(workers);
    settings.setNumRound(rounds);
    settings.setNthread(1);
    settings.setMaxDepth(6);
    settings.setSeed(SEED);
    // Needed for the comparison: a restarted worker repeats itself only so, and ours sets it
    // always.
    settings.setSeedPerIteration(true);
    // VectorAssembler writes rows of many zeros as sparse vectors; XGBoost has to know what they
    // mean.
    settings.setMissing(0f);
    estimator.set("labelCol", "label");
    estimator.set("featuresCol", "features");
    return estimator;
  }
}
