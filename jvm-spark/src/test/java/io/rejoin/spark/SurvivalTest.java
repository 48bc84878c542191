package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Faults;
import io.rejoin.RejoinException;
import io.rejoin.spark.testing.Survival;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRegressionModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRegressor;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** All ranks as threads of one JVM, with the native library. */
@Timeout(120)
class SurvivalTest {
  private static SparkSession session;
  private static Dataset<Row> rows;
  private static Dataset<Row> evaluation;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[3,4]");
    rows = LocalSpark.rows(session, 3000, 1).repartition(3).cache();
    evaluation = LocalSpark.rows(session, 900, 2).repartition(3).cache();
    assertEquals(3900, rows.count() + evaluation.count());
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static XGBoostClassifier sampled(int rounds) {
    XGBoostClassifier stock = LocalSpark.classifier(3, rounds);
    stock.setSubsample(0.8);
    stock.setColsampleBytree(0.7);
    stock.setSeedPerIteration(true);
    return stock;
  }

  private static byte[] bytes(XGBoostClassificationModel model) throws Exception {
    return model.nativeBooster().toByteArray("ubj");
  }

  @Test
  void without_a_death_the_model_is_that_of_the_stock_estimator() throws Exception {
    XGBoostClassificationModel ours = new RejoinEstimator<>(sampled(8)).fit(rows);
    XGBoostClassificationModel stock = sampled(8).fit(rows);

    assertArrayEquals(bytes(stock), bytes(ours));
    assertArrayEquals(
        stock.summary().get().trainObjectiveHistory(),
        ours.summary().get().trainObjectiveHistory());
    assertEquals(
        stock.transform(evaluation).collectAsList().toString(),
        ours.transform(evaluation).collectAsList().toString());
  }

  @Test
  void with_an_evaluation_set_it_stops_where_the_stock_estimator_stops() throws Exception {
    XGBoostClassificationModel ours = new RejoinEstimator<>(stopping()).fit(rows);
    XGBoostClassificationModel stock = stopping().fit(rows);

    assertArrayEquals(bytes(stock), bytes(ours));
    assertArrayEquals(
        stock.summary().get().validationObjectiveHistory().apply(0)._2(),
        ours.summary().get().validationObjectiveHistory().apply(0)._2());
    assertTrue(stock.nativeBooster().getNumBoostedRound() < 60);
  }

  private static XGBoostClassifier stopping() {
    XGBoostClassifier stock = sampled(60);
    stock.setEta(0.9);
    stock.setEvalDataset(evaluation);
    stock.setNumEarlyStoppingRounds(3);
    return stock;
  }

  @Test
  void nothing_is_left_stored_after_a_fit() {
    new RejoinEstimator<>(stopping()).fit(rows);
    assertEquals(
        List.of(),
        JavaSparkContext.fromSparkContext(session.sparkContext())
            .getPersistentRDDs()
            .values()
            .stream()
            .map(rdd -> String.valueOf(rdd.name()))
            .filter(name -> name.startsWith("rejoin"))
            .collect(Collectors.toList()));
  }

  /** How often any partition of the rows that differ was computed. */
  private static final AtomicInteger READ = new AtomicInteger();

  @Test
  void rows_that_come_in_another_order_when_they_are_read_again_end_the_job_and_give_no_model() {
    List<Row> all = LocalSpark.rows(session, 300, 1).collectAsList();
    JavaRDD<Row> differing =
        JavaSparkContext.fromSparkContext(session.sparkContext())
            .parallelize(all, 3)
            .mapPartitions(
                partition -> {
                  List<Row> own = new ArrayList<>();
                  partition.forEachRemaining(own::add);
                  Collections.rotate(own, READ.incrementAndGet());
                  return own.iterator();
                });
    session.conf().set("spark.rejoin.input", "reread");
    try {
      RejoinException failure =
          assertThrows(
              RejoinException.class,
              () ->
                  new RejoinEstimator<>(sampled(4))
                      .fit(session.createDataFrame(differing, all.get(0).schema())));
      assertEquals(RejoinException.Code.MISMATCH, failure.code(), failure.text());
      assertTrue(failure.text().contains("not those that it trained on"), failure.text());
    } finally {
      session.conf().unset("spark.rejoin.input");
    }
  }

  @Test
  void a_task_that_throws_in_a_round_rejoins_and_the_model_is_the_same() {
    Survival.Report<XGBoostClassificationModel> report =
        new Survival<>(new RejoinEstimator<>(sampled(10))).kill(1, 5).assertSameModel(rows);
    assertEquals(1, report.kills());
  }

  /** Its second derivatives are constant: {@code approx} sketches once, in the first round. */
  @Test
  void with_approx_and_squared_error_the_model_is_the_same_too() {
    XGBoostRegressor stock = new XGBoostRegressor();
    stock.setNumWorkers(3);
    stock.setNumRound(8);
    stock.setNthread(1);
    stock.setMaxDepth(3);
    stock.setTreeMethod("approx");
    stock.setSubsample(0.8);
    new Survival<>(new RejoinEstimator<XGBoostRegressionModel>(stock))
        .kill(1, 5)
        .assertSameModel(rows);
  }

  @Test
  void rank_0_and_another_one_after_it_may_die_too() {
    new Survival<>(new RejoinEstimator<>(sampled(10))).kill(0, 3).kill(2, 6).assertSameModel(rows);
  }

  @Test
  void a_death_with_an_evaluation_set_and_early_stopping_changes_nothing() {
    new Survival<>(new RejoinEstimator<>(stopping())).kill(0, 2).assertSameModel(rows);
  }

  @Test
  void a_kill_that_never_happens_is_an_error() {
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> new Survival<>(new RejoinEstimator<>(sampled(4))).kill(1, 50).run(rows));
    assertTrue(failure.text().contains("0 of 1"), failure.text());
  }

  @Test
  void a_bad_parameter_ends_the_job_at_once_with_what_xgboost_says() {
    XGBoostClassifier stock = LocalSpark.classifier(3, 4);
    stock.setObjective("binary:logistic");
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () ->
                new RejoinEstimator<>(stock)
                    .fit(rows.selectExpr("label * 1.2 as label", "features")));
    assertEquals(RejoinException.Code.TRAINING_FAILED, failure.code());
    assertTrue(failure.text().contains("label must be in"), failure.text());
  }

  @Test
  void three_deaths_of_one_rank_are_survived_and_the_fourth_ends_the_job_with_what_to_raise()
      throws Exception {
    byte[] undisturbed = bytes(new RejoinEstimator<>(sampled(6)).fit(rows));
    Faults three = Faults.none();
    for (int incarnation = 0; incarnation < 3; incarnation++) {
      three.and("rank=1,incarnation=" + incarnation + ",version=3,at=bytes:0,do=throw");
    }
    assertArrayEquals(
        undisturbed, bytes(new RejoinEstimator<>(sampled(6)).setFaultsForTests(three).fit(rows)));

    Faults four = Faults.none();
    for (int incarnation = 0; incarnation < 4; incarnation++) {
      four.and("rank=1,incarnation=" + incarnation + ",version=3,at=bytes:0,do=throw");
    }
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> new RejoinEstimator<>(sampled(6)).setFaultsForTests(four).fit(rows));
    assertEquals(RejoinException.Code.UNRECOVERABLE, failure.code());
    assertTrue(failure.text().contains("local[threads,failures]"), failure.text());
  }

  @Test
  void a_custom_objective_and_metric_give_the_stock_model_with_and_without_a_death()
      throws Exception {
    XGBoostClassifier stock = sampled(8);
    stock.setObjective("binary:logistic");
    stock.setCustomObj(new LogisticObjective());
    stock.setCustomEval(new SquaredError());
    stock.setEvalDataset(evaluation);
    byte[] expected = bytes(stock.fit(rows));

    assertArrayEquals(expected, bytes(new RejoinEstimator<>(stock).fit(rows)));
    for (int rank = 0; rank < 2; rank++) {
      Faults fault = Faults.parse("rank=" + rank + ",version=4,at=bytes:0,do=throw");
      assertArrayEquals(
          expected, bytes(new RejoinEstimator<>(stock).setFaultsForTests(fault).fit(rows)));
    }
  }
}
