package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.RejoinException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
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
        SparkSettings.of(Collections.singletonMap("spark.rejoin.input", mode)),
        session,
        Optional.empty());
  }

  private static StockEstimator stock() {
    return StockEstimator.of(LocalSpark.classifier(3, 2), ParamMap.empty());
  }

  private static PreparedInput prepare(String mode, Dataset<?> rows) {
    StockEstimator stock = stock();
    return prepare(mode, rows, stock);
  }

  private static PreparedInput prepare(String mode, Dataset<?> rows, StockEstimator stock) {
    return with(mode).prepare("training", () -> stock.prepare(rows), 3);
  }

  /** Stored as rows of Spark's. */
  private static PreparedInput opaque(String mode, Dataset<Row> rows) {
    return with(mode).prepare("training", () -> PagedRows.ofAnyKind(rows), 3);
  }

  private static List<List<Row>> read(PreparedInput input, Dataset<Row> like) {
    return with("replicate").frame(input, like.schema()).toJavaRDD().glom().collect();
  }

  private static long rows(PreparedInput input) {
    return input.stored().partitions().stream().mapToLong(PartitionPages::rows).sum();
  }

  /** All pages, by partition. */
  private static List<List<byte[]>> pages(PreparedInput input) {
    return input.stored().pages().toJavaRDD().glom().collect();
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
  void the_stored_rows_come_back_in_their_order() {
    Dataset<Row> rows = LocalSpark.rows(session, 1000, 1).repartition(3).cache();
    try (PreparedInput input = opaque("replicate", rows)) {
      assertEquals(rows.toJavaRDD().glom().collect(), read(input, rows));
      assertEquals(1000, rows(input));
    }
  }

  private static final AtomicLong READ = new AtomicLong();

  @Test
  void rows_that_are_read_again_and_are_others_are_a_mismatch_and_no_loss() {
    Dataset<Row> rows =
        session
            .range(0, 30, 1, 3)
            .map((MapFunction<Long, Long>) x -> READ.incrementAndGet(), Encoders.LONG())
            .toDF();
    try (PreparedInput input = opaque("reread", rows)) {
      Exception failure = assertThrows(Exception.class, () -> pages(input));
      String text = failure.toString();
      assertTrue(text.contains("MISMATCH: the rows of rank"), text);
      assertTrue(text.contains("set spark.rejoin.input to replicate"), text);
    }
  }

  @Test
  void pages_are_the_same_for_the_same_rows_and_others_for_another_order() {
    Dataset<Row> rows = LocalSpark.rows(session, 300, 1).repartition(3).cache();
    List<PartitionPages> once;
    try (PreparedInput input = prepare("replicate", rows)) {
      once = input.stored().partitions();
    }
    try (PreparedInput again = prepare("replicate", rows)) {
      assertEquals(once, again.stored().partitions());
    }
    try (PreparedInput other = prepare("replicate", rows.sortWithinPartitions("label"))) {
      assertNotEquals(once, other.stored().partitions());
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
  void a_partition_may_have_more_rows_than_fit_into_a_page() {
    Dataset<Row> rows = LocalSpark.rows(session, 60_000, 1).repartition(3).cache();
    try (PreparedInput input = opaque("replicate", rows)) {
      assertTrue(input.stored().partitions().get(0).count() > 1);
      assertEquals(rows.toJavaRDD().glom().collect(), read(input, rows));
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
      assertEquals(300, rows(input));
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
      assertEquals(300, rows(input));
      assertEquals(3, pages(input).size());
    }
  }

  @Test
  void checkpointing_needs_its_directory_and_keeps_the_rows_as_long_as_the_fit(
      @TempDir Path directory) throws IOException {
    Dataset<Row> rows = LocalSpark.rows(session, 300, 1).repartition(3).cache();
    assertTrue(refused("checkpoint", rows).contains("setCheckpointDir"));

    session.sparkContext().setCheckpointDir(directory.toString());
    try (PreparedInput input = prepare("checkpoint", rows)) {
      assertTrue(input.stored().pages().dependencies().head().rdd().isCheckpointed());
      List<List<byte[]>> kept = pages(input);
      try (PreparedInput stored = prepare("replicate", rows)) {
        assertEquals(text(pages(stored)), text(kept));
      }
      assertNotEquals(List.of(), files(directory));
    }
    assertEquals(List.of(), files(directory), "what a fit leaves behind");

    Dataset<Row> broken = rows.selectExpr("raise_error('on purpose') label", "features");
    assertThrows(Exception.class, () -> opaque("checkpoint", broken));
    assertEquals(List.of(), files(directory), "what a fit leaves behind that has failed");
  }

  private static List<Path> files(Path directory) throws IOException {
    try (Stream<Path> all = Files.walk(directory)) {
      return all.filter(Files::isRegularFile).collect(Collectors.toList());
    }
  }

  private static String text(List<List<byte[]>> pages) {
    return pages.stream()
        .map(each -> each.stream().map(Arrays::toString).collect(Collectors.toList()))
        .collect(Collectors.toList())
        .toString();
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

  private static volatile CountDownLatch computes;

  /** Numbers of which no task comes to an end until it is killed. */
  private static Dataset<Long> withoutEnd() {
    computes = new CountDownLatch(1);
    MapFunction<Long, Long> withoutEnd =
        row -> {
          computes.countDown();
          while (!TaskContext.get().isInterrupted()) {
            Thread.sleep(10);
          }
          throw new TaskKilledException();
        };
    return session.range(0, 30, 1, 3).map(withoutEnd, Encoders.LONG());
  }

  /** The error of a fit that is ended in this way while tasks compute its rows. */
  private static RejoinException ended(Runnable end, Executable fit) throws InterruptedException {
    Thread ends =
        new Thread(
            () -> {
              try {
                computes.await();
                end.run();
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            });
    ends.start();
    try {
      return assertThrows(RejoinException.class, fit);
    } finally {
      ends.join();
    }
  }

  private static RejoinException interrupted(Executable fit) throws InterruptedException {
    try {
      return ended(Thread.currentThread()::interrupt, fit);
    } finally {
      assertTrue(Thread.interrupted(), "it was interrupted");
    }
  }

  @Test
  void an_interrupt_while_input_is_stored_ends_sparks_job_and_leaves_no_copies() throws Exception {
    Dataset<Row> rows = withoutEnd().toDF();
    RejoinException cancelled = interrupted(() -> opaque("replicate", rows));
    assertEquals(RejoinException.Code.CANCELLED, cancelled.code());
    nothingIsLeft();
  }

  /** Adaptive execution runs the stage before the shuffle to know how many partitions there are. */
  @Test
  void an_interrupt_before_a_shuffle_of_the_input_ends_its_stage() throws Exception {
    Dataset<Row> rows = withoutEnd().groupBy("value").count();
    RejoinException cancelled = interrupted(() -> opaque("replicate", rows));
    assertEquals(RejoinException.Code.CANCELLED, cancelled.code());
    nothingIsLeft();

    Dataset<Long> numbers = withoutEnd().repartition(3).distinct();
    cancelled =
        interrupted(() -> RejoinSpark.train(numbers, 3, InputPreparationTest::ranksThatRead));
    assertEquals(RejoinException.Code.CANCELLED, cancelled.code());
    nothingIsLeft();

    Dataset<Row> classes =
        withoutEnd()
            .groupBy("value")
            .count()
            .selectExpr("cast(value % 2 as double) label", "array(float(value)) features");
    RejoinEstimator<?> estimator = new RejoinEstimator<>(LocalSpark.classifier(3, 2));
    cancelled = interrupted(() -> estimator.fit(classes));
    assertEquals(RejoinException.Code.CANCELLED, cancelled.code());
    nothingIsLeft();
  }

  private static int[] ranksThatRead(Communicator ranks, Iterable<Long> rows) {
    ranks.load();
    rows.forEach(row -> {});
    int[] count = {1};
    ranks.allreduce(count, Reduction.SUM);
    return count;
  }

  private static volatile boolean isHeldUp;

  /** Spark waits for ever for the shuffle of a plan whose stage was ended before. */
  @Test
  void a_training_that_was_interrupted_before_a_shuffle_can_be_run_again_on_the_same_data_set()
      throws Exception {
    computes = new CountDownLatch(1);
    isHeldUp = true;
    MapFunction<Long, Long> heldUp =
        row -> {
          computes.countDown();
          while (isHeldUp) {
            Thread.sleep(10);
            TaskContext.get().killTaskIfInterrupted();
          }
          return row;
        };
    Dataset<Long> rows = session.range(0, 30, 1, 3).map(heldUp, Encoders.LONG()).distinct();
    try {
      interrupted(() -> RejoinSpark.train(rows, 3, InputPreparationTest::ranksThatRead));
    } finally {
      isHeldUp = false;
    }
    int[] ranks =
        assertTimeoutPreemptively(
            Duration.ofSeconds(60),
            () -> RejoinSpark.train(rows, 3, InputPreparationTest::ranksThatRead));
    assertEquals(3, ranks[0]);
  }

  @Test
  void a_job_group_that_is_cancelled_while_input_is_computed_cancels_the_fit() throws Exception {
    SparkContext context = session.sparkContext();
    for (Dataset<Row> rows : List.of(withoutEnd().toDF(), withoutEnd().groupBy("value").count())) {
      computes = new CountDownLatch(1);
      context.setJobGroup("a fit", "a fit", false);
      try {
        RejoinException cancelled =
            ended(() -> context.cancelJobGroup("a fit"), () -> opaque("replicate", rows));
        assertEquals(RejoinException.Code.CANCELLED, cancelled.code());
        assertTrue(cancelled.text().contains("Spark ended"), cancelled.text());
      } finally {
        context.clearJobGroup();
      }
      nothingIsLeft();
    }
  }

  private static void nothingIsLeft() {
    assertTimeoutPreemptively(
        Duration.ofSeconds(60),
        () -> {
          while (session.sparkContext().statusTracker().getActiveStageIds().length > 0) {
            Thread.sleep(10);
          }
        });
    assertEquals(List.of(), stored());
  }
}
