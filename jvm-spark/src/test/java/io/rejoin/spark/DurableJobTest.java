package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Faults;
import io.rejoin.Reduction;
import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.commons.io.FileUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A training that ends in the middle goes on in the next one of the same application. (With a
 * driver that dies: DurableIT.)
 */
@Timeout(180)
class DurableJobTest {
  private static final int WORKERS = 2;
  private static final int ROUNDS = 12;
  private static final int LAST_ROUND = 6;

  private static SparkSession session;

  @TempDir File scratch;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[4,4]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  @BeforeEach
  void wantDurable() {
    setDurable();
    LocalSpark.rows(session, 600, 3).repartition(3).write().parquet(source());
  }

  private void setDurable() {
    session.conf().set("spark.rejoin.durable", folder().toUri().toString());
    session.conf().set("spark.rejoin.durable.every", "1");
    session.conf().set("spark.rejoin.checkpoint.rounds", "1");
  }

  /** A task that was given up may still write into it, but doesn't bring it back. */
  @AfterEach
  void removeFolder() throws InterruptedException {
    for (int tries = 0; Files.exists(folder()); tries++) {
      assertTrue(tries < 1000, "something writes to " + folder() + " again and again");
      FileUtils.deleteQuietly(folder().toFile());
      Thread.sleep(20);
    }
  }

  @AfterEach
  void wantNothing() {
    for (String each : new String[] {"durable", "durable.every", "durable.name"}) {
      session.conf().unset("spark.rejoin." + each);
    }
    session.conf().unset("spark.rejoin.checkpoint.rounds");
  }

  private Path folder() {
    return scratch.toPath().resolve("durable");
  }

  private String source() {
    return scratch.toPath().resolve("rows").toString();
  }

  private Dataset<Row> rows() {
    return session.read().parquet(source());
  }

  private List<Path> trainings() throws IOException {
    if (!Files.exists(folder())) {
      return List.of();
    }
    try (Stream<Path> all = Files.list(folder())) {
      return all.collect(Collectors.toList());
    }
  }

  /** A fit, and the rounds that its ranks have entered versions with. */
  private static final class Fitted {
    final CopyOnWriteArrayList<Long> rounds = new CopyOnWriteArrayList<>();
    private final RejoinEstimator<XGBoostClassificationModel> estimator;

    Fitted(XGBoostClassifier stock) {
      estimator = new RejoinEstimator<>(stock);
      listen(event -> {});
    }

    Fitted listen(java.util.function.Consumer<TrainingEvent> more) {
      estimator.setEventListener(
          event -> {
            if (event.kind() == Kind.VERSION_ENTERED) {
              rounds.add(event.number("round"));
            }
            more.accept(event);
          });
      return this;
    }

    byte[] model(Dataset<Row> rows) throws XGBoostError {
      return bytes(estimator.fit(rows));
    }
  }

  private static byte[] bytes(XGBoostClassificationModel model) throws XGBoostError {
    return model.nativeBooster().toByteArray("ubj");
  }

  private static XGBoostClassifier classifier() {
    return LocalSpark.classifier(WORKERS, ROUNDS);
  }

  private static byte[] stock(XGBoostClassifier classifier, Dataset<Row> rows) throws XGBoostError {
    classifier.setSeedPerIteration(true);
    return bytes(classifier.fit(rows));
  }

  /**
   * Fits until a round, in which its thread is interrupted: a rank is held up there, so that the
   * training can't be over before, and the checkpoints before it are written.
   */
  private static void interrupted(XGBoostClassifier classifier, Dataset<Row> rows) {
    Thread trainer = Thread.currentThread();
    String heldUp = "rank=1,version=" + LAST_ROUND + ",at=bytes:0,do=delay:100s";
    Fitted ended = new Fitted(classifier);
    ended.estimator.setFaultsForTests(Faults.parse(heldUp));
    ended.listen(
        event -> {
          if (event.kind() == Kind.DURABLE_WRITTEN && event.number("version") == LAST_ROUND - 1) {
            trainer.interrupt();
          }
        });
    RejoinException failure = assertThrows(RejoinException.class, () -> ended.model(rows));
    assertTrue(Thread.interrupted(), "the interrupt is kept");
    assertEquals(Code.CANCELLED, failure.code(), failure.text());
  }

  @Test
  void a_training_that_was_ended_goes_on_and_its_folder_is_gone_after_a_success() throws Exception {
    byte[] expected = stock(classifier(), rows());
    interrupted(classifier(), rows());
    assertEquals(1, trainings().size());
    Fitted again = new Fitted(classifier());
    assertArrayEquals(expected, again.model(rows()));
    assertTrue(again.rounds.get(0) >= LAST_ROUND - 2, "rounds: " + again.rounds);
    assertEquals(List.of(), trainings());
  }

  @Test
  void other_parameters_or_other_rows_are_another_training() throws Exception {
    interrupted(classifier(), rows());
    XGBoostClassifier deep = classifier();
    deep.setMaxDepth(4);
    Fitted deeper = new Fitted(deep);
    assertArrayEquals(stock(deep, rows()), deeper.model(rows()));
    assertEquals(0, deeper.rounds.get(0));
    LocalSpark.rows(session, 600, 4).write().mode("append").parquet(source());
    Fitted more = new Fitted(classifier());
    assertArrayEquals(stock(classifier(), rows()), more.model(rows()));
    assertEquals(0, more.rounds.get(0));
    assertEquals(1, trainings().size(), "the first one's is still there");
  }

  @Test
  void a_page_that_is_lost_makes_the_training_begin_again_on_new_pages() throws Exception {
    byte[] expected = stock(classifier(), rows());
    interrupted(classifier(), rows());
    try (Stream<Path> files = Files.list(trainings().get(0))) {
      Path page = files.filter(each -> each.toString().endsWith(".page")).findFirst().orElseThrow();
      Files.delete(page);
    }
    Fitted again = new Fitted(classifier());
    assertArrayEquals(expected, again.model(rows()));
    assertTrue(again.rounds.contains(0L), "rounds: " + again.rounds);
    assertEquals(List.of(), trainings());
  }

  @Test
  void
      the_list_of_stored_pages_has_the_estimators_names_and_types_of_features_and_its_missing_value()
          throws Exception {
    XGBoostClassifier described = classifier();
    String[] names = {"age", "height", "weight", "pulse", "score", "z"};
    String[] types = {"q", "q", "q", "q", "q", "q"};
    described.setFeatureNames(names);
    described.setFeatureTypes(types);
    described.setMissing(-7);
    interrupted(described, rows());
    byte[] list = Files.readAllBytes(trainings().get(0).resolve("training.pages"));
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(list));
    assertEquals(3, in.readInt());
    assertEquals(new FeatureDescription(names, types, -7), FeatureDescription.read(in));
  }

  @Test
  void rows_of_no_file_need_a_name_and_go_on_under_it() throws Exception {
    Dataset<Row> rows = session.createDataFrame(rows().toJavaRDD(), rows().schema());
    RejoinException unnamed =
        assertThrows(RejoinException.class, () -> new Fitted(classifier()).model(rows));
    assertEquals(Code.BAD_ARGUMENT, unnamed.code());
    assertTrue(unnamed.text().contains("spark.rejoin.durable.name"), unnamed.text());
    session.conf().set("spark.rejoin.durable.name", "these rows");
    interrupted(classifier(), rows);
    Fitted other = new Fitted(classifier());
    other.model(rows);
    assertEquals(0, other.rounds.get(0), "rows that may be others, in the same application");
    assertEquals(1, trainings().size());
    nextApplication("these rows");
    Fitted again = new Fitted(classifier());
    again.model(session.createDataFrame(rows().toJavaRDD(), rows().schema()));
    assertTrue(again.rounds.get(0) >= LAST_ROUND - 1, "rounds: " + again.rounds);
    assertEquals(List.of(), trainings());
  }

  @Test
  void a_folder_is_waited_for_as_long_as_files_of_it_are_removed_and_no_longer() {
    CountDownLatch end = new CountDownLatch(1);
    Thread works =
        new Thread(
            () -> {
              try {
                end.await();
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            });
    works.start();
    assertFalse(DurableJob.hasEnded(works, 20, () -> 7), "it hangs");
    AtomicLong removed = new AtomicLong();
    boolean ended =
        DurableJob.hasEnded(
            works,
            100,
            () -> {
              if (removed.get() == 5) {
                end.countDown();
              }
              return removed.incrementAndGet();
            });
    assertTrue(ended, removed + " files were removed meanwhile");
  }

  private Dataset<Row> fold(String which) {
    return session.createDataFrame(rows().filter(which).toJavaRDD(), rows().schema());
  }

  @Test
  void trainings_that_only_their_order_tells_apart_go_on_as_those_that_they_were()
      throws Exception {
    String first = "group < 15";
    String second = "group >= 15";
    session.conf().set("spark.rejoin.durable.name", "folds");
    new Fitted(classifier()).model(fold(first));
    interrupted(classifier(), fold(second));
    nextApplication("folds");
    Fitted again = new Fitted(classifier());
    again.model(fold(first));
    assertEquals(0, again.rounds.get(0), "the first one was over");
    byte[] expected = stock(classifier(), fold(second));
    Fitted other = new Fitted(classifier());
    assertArrayEquals(expected, other.model(fold(second)));
    assertTrue(other.rounds.get(0) >= LAST_ROUND - 1, "rounds: " + other.rounds);
    assertEquals(List.of(), trainings());
  }

  @Test
  void rows_that_were_refused_are_not_taken_again_for_those_that_come_in_their_place()
      throws Exception {
    session.conf().set("spark.rejoin.durable.name", "repaired rows");
    Dataset<Row> all = session.createDataFrame(rows().toJavaRDD(), rows().schema());
    Dataset<Row> one = all.limit(1).coalesce(1).repartition(WORKERS);
    Dataset<Row> empty = session.createDataFrame(one.toJavaRDD(), one.schema());
    RejoinException refused =
        assertThrows(RejoinException.class, () -> new Fitted(classifier()).model(empty));
    assertEquals(Code.BAD_ARGUMENT, refused.code(), refused.text());
    assertTrue(refused.text().contains("is empty"), refused.text());
    assertEquals(List.of(), trainings());
    interrupted(classifier(), all);
    assertEquals(1, trainings().size());
  }

  /** What is wrong there is the driver's machine or a setting, and the next one may do without. */
  @Test
  void a_training_that_is_refused_for_another_reason_keeps_what_it_has() throws Exception {
    interrupted(classifier(), rows());
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      String port = String.valueOf(taken.getLocalPort());
      session.conf().set("spark.rejoin.tracker.ports", port + "-" + port);
      RejoinException refused =
          assertThrows(RejoinException.class, () -> new Fitted(classifier()).model(rows()));
      assertEquals(Code.BAD_ARGUMENT, refused.code(), refused.text());
    } finally {
      session.conf().unset("spark.rejoin.tracker.ports");
    }
    Fitted again = new Fitted(classifier());
    again.model(rows());
    assertTrue(again.rounds.get(0) >= LAST_ROUND - 2, "rounds: " + again.rounds);
  }

  private void nextApplication(String name) {
    session.stop();
    session = LocalSpark.start("local[4,4]");
    setDurable();
    session.conf().set("spark.rejoin.durable.name", name);
  }

  @Test
  void a_function_goes_on_from_its_newest_checkpoint_under_a_name() {
    session.conf().set("spark.rejoin.durable.name", "counts");
    RejoinException ended =
        assertThrows(
            RejoinException.class,
            () -> RejoinSpark.train(numbers(), WORKERS, (ranks, rows) -> count(ranks, true)));
    assertEquals(Code.UNRECOVERABLE, ended.code(), ended.text());
    nextApplication("counts");
    assertArrayEquals(
        new int[] {3, 5},
        RejoinSpark.train(numbers(), WORKERS, (ranks, rows) -> count(ranks, false)));
  }

  private static Dataset<Long> numbers() {
    return session.range(40).as(Encoders.LONG());
  }

  /** Counts to five, or fails for good at three; tells where it began. */
  private static int[] count(Communicator ranks, boolean fails) {
    int began = ranks.load().version();
    for (int version = began; version < 5; version++) {
      if (fails && version == 3) {
        throw new IllegalStateException("on purpose");
      }
      ranks.allreduce(new int[] {1}, Reduction.SUM);
      ranks.checkpoint(new byte[] {(byte) version});
    }
    return new int[] {began, 5};
  }
}
