package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.rejoin.RejoinException.Code;
import java.util.function.Consumer;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Data and parameters that can't be trained: a clear error, no task tried again, and the next
 * training works.
 */
@DisplayName("bad data and parameters end a training at once")
class BadInputIT {
  private static SparkSession spark() {
    return Sessions.of(Sessions.Shape.LOCAL);
  }

  private static Dataset<Row> rows() {
    return Recipe.BINARY.data(spark(), 3);
  }

  private static RejoinRun run() {
    return Refusal.run(spark(), Recipe.BINARY);
  }

  /** The recipe's estimator, changed. */
  private static XGBoostClassifier estimator(Consumer<XGBoostClassifier> change) {
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(spark(), 3, 4);
    change.accept(stock);
    return stock;
  }

  /** The stock estimator and ours say the same about something that both find before any work. */
  private static Refusal asTheStockEstimator(XGBoostClassifier stock, Dataset<Row> rows) {
    Exception expected = assertThrows(Exception.class, () -> stock.fit(rows));
    Refusal ours = Refusal.of(run().estimator(stock).data(rows));
    assertEquals(expected.getClass(), ours.error().getClass());
    assertEquals(expected.getMessage(), ours.error().getMessage());
    return ours;
  }

  @AfterEach
  void the_next_fit_works() throws Exception {
    Refusal.nextFitWorks(spark());
  }

  @Test
  void an_empty_training_partition_is_named() {
    Refusal.of(run().data(rows().limit(2)))
        .says(Code.BAD_ARGUMENT, "of the training input is empty", "use fewer workers");
  }

  @Test
  void an_empty_evaluation_partition_is_named() {
    XGBoostClassifier stock = estimator(one -> one.setEvalDataset(rows().limit(2)));
    Refusal.of(run().estimator(stock))
        .says(Code.BAD_ARGUMENT, "of the evaluation input is empty", "use fewer workers");
  }

  @Test
  void no_rows_at_all_are_no_input() {
    Refusal.of(run().data(rows().limit(0))).says("empty");
  }

  @Test
  void sparse_features_need_a_missing_value() {
    XGBoostClassifier stock = estimator(one -> one.clear(one.missing()));
    Refusal.of(run().estimator(stock)).says(Code.BAD_ARGUMENT, "sparse", "setMissing(0)");
  }

  @Test
  void a_label_above_the_range_is_refused_as_xgboost_says_it() {
    XGBoostClassifier stock = estimator(one -> one.setObjective("binary:logistic"));
    Dataset<Row> rows = rows().withColumn("label", functions.expr("mdvis * 1.5"));
    Refusal.of(run().estimator(stock).data(rows))
        .says(Code.TRAINING_FAILED, "rank", "(0,1) for the logistic loss");
  }

  @Test
  void a_negative_label_is_refused_as_xgboost_says_it() {
    XGBoostClassifier stock = estimator(one -> one.setObjective("binary:logistic"));
    Dataset<Row> rows = rows().withColumn("label", functions.expr("label - 1"));
    Refusal.of(run().estimator(stock).data(rows))
        .says(Code.TRAINING_FAILED, "(0,1) for the logistic loss");
  }

  @Test
  void a_class_beyond_the_number_of_classes_is_refused_as_xgboost_says_it() {
    XGBoostClassifier stock =
        estimator(
            one -> {
              one.setObjective("multi:softprob");
              one.setNumClass(2);
            });
    Dataset<Row> rows = rows().withColumn("label", functions.expr("mdvis"));
    Refusal.of(run().estimator(stock).data(rows)).says(Code.TRAINING_FAILED, "num_class");
  }

  @Test
  void constraints_that_can_not_be_read_are_refused_as_xgboost_says_it() {
    XGBoostClassifier stock = estimator(one -> one.setInteractionConstraints("all of them"));
    Refusal.of(run().estimator(stock)).says(Code.TRAINING_FAILED, "all of them");
  }

  @Test
  void constraints_that_do_not_fit_the_features_are_refused_as_xgboost_says_it() {
    XGBoostClassifier stock = estimator(one -> one.set(one.monotoneConstraints(), new int[13]));
    Refusal.of(run().estimator(stock)).says(Code.TRAINING_FAILED, "monotone");
  }

  @Test
  void more_threads_than_a_task_has_cores_are_refused_as_the_stock_estimator_says_it() {
    asTheStockEstimator(estimator(one -> one.setNthread(8)), rows()).says("spark.task.cpus");
  }

  @Test
  void a_column_that_is_not_there_is_refused_as_the_stock_estimator_says_it() {
    asTheStockEstimator(estimator(one -> one.setLabelCol("lable")), rows()).says("lable");
    asTheStockEstimator(estimator(one -> one.setFeaturesCol("featurs")), rows()).says("featurs");
    asTheStockEstimator(estimator(one -> one.setWeightCol("wait")), rows()).says("wait");
  }

  @Test
  void features_that_are_no_numbers_are_refused_as_the_stock_estimator_says_it() {
    asTheStockEstimator(estimator(one -> {}), rows().withColumn("features", functions.lit("many")));
  }

  @Test
  void values_that_the_stock_estimator_refuses_when_they_are_set_never_get_here() {
    estimator(
        one -> {
          assertThrows(IllegalArgumentException.class, () -> one.setEvalMetric("beauty"));
          assertThrows(IllegalArgumentException.class, () -> one.setNumWorkers(0));
          assertThrows(IllegalArgumentException.class, () -> one.setEta(-1));
          assertThrows(IllegalArgumentException.class, () -> one.setBooster("gblinear"));
        });
  }

  @Test
  void a_parameter_name_that_there_is_not_is_told_as_the_stock_estimator_tells_it()
      throws Exception {
    scala.collection.immutable.Map<String, Object> parameters =
        new scala.collection.immutable.Map.Map2<>("max_dept", 2, "num_workers", 3);
    XGBoostClassifier stock = new XGBoostClassifier(parameters);
    stock.setNumRound(2);
    stock.setNthread(1);
    stock.setMissing(0f);
    stock.setLabelCol("label");
    stock.setFeaturesCol("features");
    // The stock estimator leaves out what it doesn't know, and trains.
    String expected = Digest.of(stock.fit(rows()));
    assertEquals(expected, run().estimator(stock).train().digest());
  }

  @Test
  void an_unknown_setting_is_refused_by_name() {
    Refusal.of(run().setting("spark.rejoin.heart.beat", "1s"))
        .says(Code.BAD_ARGUMENT, "spark.rejoin.heart.beat", "docs/spark.md");
  }

  @Test
  void a_setting_that_can_not_be_is_refused_with_what_was_expected() {
    Refusal.of(run().setting("spark.rejoin.input.replicas", "0"))
        .says(Code.BAD_ARGUMENT, "spark.rejoin.input.replicas", "\"0\"", "1 to 40");
    Refusal.of(run().setting("spark.rejoin.input", "checkpoint"))
        .says(Code.BAD_ARGUMENT, "setCheckpointDir");
    Refusal.of(run().setting("spark.rejoin.input", "reread"))
        .says(Code.BAD_ARGUMENT, "shuffle", "replicate");
  }

  @Test
  void a_rank_that_does_not_repeat_itself_ends_the_job_with_who_and_where() {
    RejoinRun run = forgetful().setting("spark.rejoin.hook", "off");
    Refusal.withAtMost(1, run)
        .says(Code.MISMATCH, "rank 1 did not repeat itself towards", "round", "byte");
    assertEquals(1, run.fired());
  }

  @Test
  void a_rank_that_does_not_repeat_itself_ends_the_job_with_the_hook_too() {
    RejoinRun run = forgetful();
    Refusal.withAtMost(1, run)
        .says(Code.MISMATCH, "rank 1 did not repeat itself: as incarnation 1", "round", "byte");
    assertEquals(1, run.fired());
  }

  /** Its gradients depend on the task's attempt: the restarted rank gives other bytes. */
  private RejoinRun forgetful() {
    XGBoostClassifier stock =
        estimator(
            one -> {
              one.setNumRound(12);
              one.setCustomObj(new ForgetfulObjective());
            });
    return run()
        .estimator(stock)
        .setting("spark.rejoin.checkpoint.rounds", "4")
        .fault(Fault.of(1).version(1, 30_000).throwError());
  }
}
