package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class InputPreparationTest {
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[3]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static InputPreparation with(String mode) {
    return new InputPreparation(
        SparkSettings.of(Collections.singletonMap("spark.rejoin.input", mode)), session);
  }

  private static StockEstimator stock() {
    return StockEstimator.of(LocalSpark.classifier(3, 2), ParamMap.empty());
  }

  private static PreparedInput prepare(String mode, Dataset<?> rows) {
    StockEstimator stock = stock();
    return prepare(mode, rows, stock);
  }

  private static PreparedInput prepare(String mode, Dataset<?> rows, StockEstimator stock) {
    Dataset<?> prepared = stock.preprocess(rows)._1();
    int vector = stock.vectorThatMustNotBeSparse(prepared.schema());
    return with(mode).prepare("training", prepared, 3, vector);
  }

  private static String refused(String mode, Dataset<?> rows) {
    session.conf().set("spark.rejoin.input", mode);
    RejoinException failure;
    try {
      failure =
          assertThrows(
              RejoinException.class,
              () -> new RejoinEstimator<>(LocalSpark.classifier(3, 2)).fit(rows));
    } finally {
      session.conf().unset("spark.rejoin.input");
    }
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    return failure.text();
  }

  @Test
  void the_stored_rows_are_those_that_the_stock_estimator_would_train_on_in_their_order() {
    Dataset<Row> rows = LocalSpark.rows(session, 1000, 1).repartition(3).cache();
    Dataset<?> prepared = stock().preprocess(rows)._1();
    try (PreparedInput input = prepare("replicate", rows)) {
      assertEquals(prepared.schema(), input.rows().schema());
      assertEquals(
          prepared.toJavaRDD().glom().collect(), input.rows().toJavaRDD().glom().collect());
      assertEquals(1000, input.fingerprints().stream().mapToLong(RowFingerprint::rows).sum());
    }
  }

  @Test
  void fingerprints_are_the_same_for_the_same_rows_and_others_for_another_order() {
    Dataset<Row> rows = LocalSpark.rows(session, 300, 1).repartition(3).cache();
    List<RowFingerprint> once;
    try (PreparedInput input = prepare("replicate", rows)) {
      once = input.fingerprints();
    }
    try (PreparedInput again = prepare("replicate", rows)) {
      assertEquals(once, again.fingerprints());
    }
    try (PreparedInput other = prepare("replicate", rows.sortWithinPartitions("label"))) {
      assertNotEquals(once, other.fingerprints());
    }
  }

  @Test
  void a_partition_that_is_stored_once_survives_no_executors_death() {
    try (PreparedInput input =
        prepare("replicate", LocalSpark.rows(session, 300, 1).repartition(3))) {
      assertEquals(0, input.deathsSurvived(), "in local mode there is one place for copies");
    }
  }

  @Test
  void blocks_hold_more_rows_than_fit_into_one() {
    Dataset<Row> rows = LocalSpark.rows(session, 60_000, 1).repartition(3).cache();
    try (PreparedInput input = prepare("replicate", rows)) {
      assertTrue(input.largestPartitionBytes() > 2 << 20);
      assertEquals(60_000, input.rows().count());
    }
  }

  @Test
  void an_empty_partition_is_refused() {
    assertTrue(
        refused("replicate", LocalSpark.rows(session, 2, 1).coalesce(1).repartition(3))
            .contains("empty"));
  }

  @Test
  void sparse_rows_are_refused_unless_the_missing_value_is_set() {
    Dataset<Row> rows = LocalSpark.sparseRows(session, 300).repartition(3);
    assertTrue(refused("replicate", rows).contains("setMissing(0)"));

    XGBoostClassifier classifier = LocalSpark.classifier(3, 2);
    classifier.setMissing(0f);
    StockEstimator stock = StockEstimator.of(classifier, ParamMap.empty());
    try (PreparedInput input = prepare("replicate", rows, stock)) {
      assertEquals(300, input.rows().count());
    }
  }

  @Test
  void one_sparse_row_behind_dense_ones_is_refused() {
    List<Row> rows = new ArrayList<>(LocalSpark.rows(session, 300, 1).collectAsList());
    rows.addAll(LocalSpark.sparseRows(session, 1).collectAsList());
    Dataset<Row> behind =
        session.createDataFrame(
            JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(rows, 3),
            rows.get(0).schema());
    assertTrue(refused("replicate", behind).contains("setMissing(0)"));
  }

  @Test
  void reading_again_is_refused_behind_a_shuffle_and_works_without() {
    assertTrue(
        refused("reread", LocalSpark.rows(session, 300, 1).repartition(3)).contains("shuffle"));

    Dataset<Row> files =
        session
            .range(0, 300, 1, 3)
            .selectExpr("cast(id % 2 as double) label", "array(float(id)) features");
    try (PreparedInput input = prepare("reread", files)) {
      assertEquals(300, input.rows().count());
    }
  }

  @Test
  void checkpointing_needs_its_directory_and_keeps_the_rows(@TempDir Path directory) {
    Dataset<Row> rows = LocalSpark.rows(session, 300, 1).repartition(3).cache();
    assertTrue(refused("checkpoint", rows).contains("setCheckpointDir"));

    session.sparkContext().setCheckpointDir(directory.toString());
    try (PreparedInput input = prepare("checkpoint", rows)) {
      assertTrue(input.stored().blocks().rdd().dependencies().head().rdd().isCheckpointed());
      assertEquals(
          stock().preprocess(rows)._1().toJavaRDD().glom().collect(),
          input.rows().toJavaRDD().glom().collect());
    }
  }

  /** Names of what this session stores for Rejoin. */
  private static List<String> stored() {
    return JavaSparkContext.fromSparkContext(session.sparkContext())
        .getPersistentRDDs()
        .values()
        .stream()
        .map(rdd -> String.valueOf(rdd.name()))
        .filter(name -> name.startsWith("rejoin"))
        .collect(Collectors.toList());
  }

  @Test
  void a_thread_that_was_interrupted_frees_its_copies_and_stays_interrupted() {
    PreparedInput input = prepare("replicate", LocalSpark.rows(session, 300, 1).repartition(3));
    assertEquals(List.of("rejoin training input"), stored());
    Thread.currentThread().interrupt();
    try {
      input.close();
    } finally {
      assertTrue(Thread.interrupted(), "it was interrupted before");
    }
    assertEquals(List.of(), stored());
  }

  @Test
  void an_input_that_is_refused_leaves_no_copies() {
    refused("replicate", LocalSpark.rows(session, 2, 1).coalesce(1).repartition(3));
    assertEquals(List.of(), stored());
  }
}
