package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Faults;
import io.rejoin.Reduction;
import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRanker;
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

/** Worlds that change, as threads of one JVM: 2 to 4 ranks. */
@Timeout(180)
class ElasticTest {
  private static final int VERSIONS = 8;

  /** Of two pages in each partition, so that shares begin and end in later pages, too. */
  private static final int ROWS = 200_000;

  /** A rank enters version 2 when so many tasks stand by. */
  private static volatile CountDownLatch standBy;

  private static SparkSession session;
  private static Dataset<Long> numbers;

  private final List<TrainingEvent> events = Collections.synchronizedList(new ArrayList<>());

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[4,4]");
    numbers = session.range(0, ROWS, 1, 3).as(Encoders.LONG());
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  @BeforeEach
  void calm() {
    events.clear();
    standBy = new CountDownLatch(0);
    session.conf().set("spark.rejoin.resize.interval", "0");
  }

  @AfterEach
  void fixed() {
    for (String name : List.of("workers.min", "workers.max", "resize.interval", "input")) {
      session.conf().unset("spark.rejoin." + name);
    }
  }

  private static void set(String name, int value) {
    session.conf().set("spark.rejoin." + name, Integer.toString(value));
  }

  /** How many rows there are, their sum and the sum of their squares, once for each version. */
  private static long[] train(Communicator ranks, Iterable<Long> rows) throws Exception {
    Communicator.Loaded start = ranks.load();
    long[] model = {0, 0, 0, 0};
    start.model().ifPresent(bytes -> ByteBuffer.wrap(bytes).asLongBuffer().get(model));
    for (int version = start.version(); version < VERSIONS; version++) {
      if (version == 2) {
        assertTrue(standBy.await(60, TimeUnit.SECONDS), "no task has come to stand by");
      }
      long[] sums = {0, 0, 0, 0};
      for (long row : rows) {
        sums[0]++;
        sums[1] += row;
        sums[2] += row * row;
      }
      sums[3] = ranks.rank() + 1;
      ranks.allreduce(sums, Reduction.SUM);
      for (int i = 0; i < 3; i++) {
        model[i] += sums[i];
      }
      model[3] = ranks.world();
      ByteBuffer bytes = ByteBuffer.allocate(model.length * Long.BYTES);
      bytes.asLongBuffer().put(model);
      ranks.checkpoint(bytes.array());
    }
    return model;
  }

  private long[] train(int workers) {
    RejoinSpark.Options options =
        new RejoinSpark.Options().faultsForTests(Faults.none()).eventListener(this::take);
    return RejoinSpark.train(numbers, workers, ElasticTest::train, options);
  }

  private void take(TrainingEvent event) {
    events.add(event);
    if (event.kind() == Kind.SPARE_STANDS_BY) {
      standBy.countDown();
    }
  }

  /** Each row counts once in each version. */
  private static void hasEachRowOnce(long[] model) {
    long sum = 0;
    long squares = 0;
    for (long row = 0; row < ROWS; row++) {
      sum += row;
      squares += row * row;
    }
    assertArrayEquals(
        new long[] {(long) VERSIONS * ROWS, VERSIONS * sum, VERSIONS * squares},
        new long[] {model[0], model[1], model[2]});
  }

  private List<Long> worlds() {
    return events.stream()
        .filter(event -> event.kind() == Kind.RESIZED)
        .map(event -> event.number("world"))
        .collect(Collectors.toList());
  }

  /** A task stays what Spark knows of it when its rank is another one. */
  private void noTaskIsTriedAgain() {
    List<TrainingEvent> again =
        events.stream()
            .filter(event -> event.kind() == Kind.RANK_JOINED && event.number("task") > 0)
            .collect(Collectors.toList());
    assertEquals(List.of(), again);
  }

  @Test
  void a_world_grows_by_the_task_that_stands_by_and_no_row_is_read_twice_or_lost() {
    set("workers.max", 4);
    standBy = new CountDownLatch(1);
    long[] model = train(3);
    hasEachRowOnce(model);
    assertEquals(List.of(4L), worlds());
    assertEquals(4, model[3]);
    noTaskIsTriedAgain();
  }

  @Test
  void pages_that_are_stored_nowhere_are_read_from_where_a_share_begins() {
    session.conf().set("spark.rejoin.input", "reread");
    set("workers.max", 4);
    standBy = new CountDownLatch(1);
    hasEachRowOnce(train(3));
    assertEquals(List.of(4L), worlds());
  }

  @Test
  void a_world_that_can_not_have_all_its_slots_begins_with_those_that_there_are() {
    set("workers.min", 2);
    long[] model = train(6); // from 3 partitions, by a shuffle
    hasEachRowOnce(model);
    assertEquals(List.of(), worlds());
    assertEquals(4, model[3]);
  }

  @Test
  void a_world_that_may_change_and_does_not_has_the_bytes_of_a_fixed_one() {
    set("workers.min", 1);
    long[] model = train(3);
    assertEquals(3, model[3]);
    fixed();
    assertArrayEquals(train(3), model);
    assertEquals(List.of(), worlds());
  }

  @Test
  void fewer_slots_than_the_fewest_workers_are_refused_with_both_numbers() {
    set("workers.min", 5);
    RejoinException failure = assertThrows(RejoinException.class, () -> train(6));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(
        failure.text().contains("5 workers must train at the same time (spark.rejoin.workers.min)")
            && failure.text().contains("has 4 slots"),
        failure.text());
  }

  @Test
  void xgboost_grows_and_trains_on() {
    set("workers.max", 4);
    Dataset<Row> rows = LocalSpark.rows(session, 4000, 3);
    List<TrainingEvent> all = Collections.synchronizedList(new ArrayList<>());
    var fit = new RejoinEstimator<>(LocalSpark.classifier(3, 12)).setEventListener(all::add);
    var model = fit.fit(rows);
    assertEquals(12, model.nativeBooster().getNumBoostedRound());
    events.addAll(all);
    assertEquals(List.of(4L), worlds());
    noTaskIsTriedAgain();
  }

  @Test
  void a_fit_that_may_change_and_does_not_has_the_bytes_of_a_fixed_one() throws Exception {
    Dataset<Row> rows = LocalSpark.rows(session, 1000, 3).cache();
    set("workers.min", 1);
    byte[] elastic = fit(rows);
    fixed();
    assertArrayEquals(fit(rows), elastic);
  }

  private static byte[] fit(Dataset<Row> rows) throws Exception {
    return new RejoinEstimator<>(LocalSpark.classifier(3, 5))
        .fit(rows)
        .nativeBooster()
        .toByteArray("ubj");
  }

  @Test
  void what_can_not_be_cut_anywhere_is_refused() {
    set("workers.min", 2);
    XGBoostRanker ranker = new XGBoostRanker();
    ranker.setGroupCol("group");
    ranker.setNumWorkers(3);
    ranker.setNumRound(2);
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> new RejoinEstimator<>(ranker).fit(LocalSpark.rows(session, 400, 3)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(
        failure.text().contains("spark.rejoin.workers.min")
            && failure.text().contains("query group"),
        failure.text());
  }

  @Test
  void fewer_rows_than_workers_are_refused() {
    set("workers.max", 100);
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () ->
                new RejoinEstimator<>(LocalSpark.classifier(3, 2))
                    .fit(LocalSpark.rows(session, 60, 3)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().contains("60 rows"), failure.text());
  }
}
