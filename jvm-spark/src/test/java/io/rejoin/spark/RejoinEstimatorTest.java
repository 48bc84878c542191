package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.nio.file.Path;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.classification.LogisticRegression;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RejoinEstimatorTest {
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[3]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static XGBoostClassifier stockOf(RejoinEstimator<?> estimator) {
    return (XGBoostClassifier) (Object) estimator.stock();
  }

  @Test
  void anything_but_a_stock_estimator_is_refused() {
    RejoinException failure =
        assertThrows(RejoinException.class, () -> new RejoinEstimator<>(new LogisticRegression()));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().contains("LogisticRegression"), failure.text());
  }

  @Test
  void a_copy_has_the_parameters_and_the_evaluation_set_and_leaves_the_original_alone() {
    Dataset<Row> evaluation = LocalSpark.rows(session, 100, 2);
    XGBoostClassifier stock = LocalSpark.classifier(3, 5);
    stock.setEvalDataset(evaluation);
    RejoinEstimator<XGBoostClassificationModel> estimator = new RejoinEstimator<>(stock);

    RejoinEstimator<XGBoostClassificationModel> copy =
        estimator.copy(new ParamMap().put(stock.maxDepth(), 9));

    assertNotSame(stock, copy.stock());
    assertEquals(9, stockOf(copy).getMaxDepth());
    assertEquals(3, stock.getMaxDepth());
    assertEquals(5, stockOf(copy).getNumRound());
    assertEquals(evaluation, stockOf(copy).getEvalDataset().get());
    assertEquals(stock.uid(), copy.uid());
  }

  @Test
  void it_comes_back_from_where_it_was_saved_alone_and_in_a_pipeline(@TempDir Path directory)
      throws Exception {
    RejoinEstimator<XGBoostClassificationModel> estimator =
        new RejoinEstimator<>(LocalSpark.classifier(3, 5));
    String alone = directory.resolve("alone").toString();
    estimator.save(alone);
    RejoinEstimator<?> back = RejoinEstimator.load(alone);
    assertEquals(estimator.uid(), back.uid());
    assertEquals(5, stockOf(back).getNumRound());
    estimator.write().overwrite().save(alone);

    String piped = directory.resolve("piped").toString();
    new Pipeline().setStages(new PipelineStage[] {estimator}).save(piped);
    RejoinEstimator<?> stage = (RejoinEstimator<?>) Pipeline.load(piped).getStages()[0];
    assertEquals(3, stockOf(stage).getNumWorkers());
  }

  @Test
  void partitions_that_adaptive_execution_coalesces_give_the_stock_estimators_model()
      throws Exception {
    session.conf().set("spark.sql.shuffle.partitions", "20");
    try {
      for (boolean coalesces : new boolean[] {true, false}) {
        session.conf().set("spark.sql.adaptive.coalescePartitions.enabled", coalesces);
        Dataset<Row> rows =
            LocalSpark.rows(session, 600, 3).repartition(functions.col("group")).sort("group");
        int partitions = rows.rdd().getNumPartitions();
        assertEquals(coalesces, partitions < 3, partitions + " partitions for 3 workers");
        XGBoostClassifier stock = LocalSpark.classifier(3, 5);
        stock.setSeedPerIteration(true);
        byte[] expected = bytes(stock.fit(rows));
        byte[] seen = bytes(new RejoinEstimator<XGBoostClassificationModel>(stock).fit(rows));
        assertArrayEquals(expected, seen, partitions + " partitions");
      }
    } finally {
      session.conf().unset("spark.sql.adaptive.coalescePartitions.enabled");
      session.conf().set("spark.sql.shuffle.partitions", "3");
    }
  }

  private static byte[] bytes(XGBoostClassificationModel model) throws XGBoostError {
    return model.nativeBooster().toByteArray("ubj");
  }

  @Test
  void the_schema_is_that_of_the_stock_estimator() {
    XGBoostClassifier stock = LocalSpark.classifier(3, 5);
    Dataset<Row> rows = LocalSpark.rows(session, 10, 1);
    assertEquals(
        stock.transformSchema(rows.schema()),
        new RejoinEstimator<>(stock).transformSchema(rows.schema()));
  }
}
