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
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.util.LongAccumulator;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Functions of a user's own as ranks: all of them are threads of one JVM. */
@Timeout(120)
class RejoinSparkTest {
  private static final int VERSIONS = 8;
  private static SparkSession session;
  private static Dataset<Long> numbers;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[3,4]");
    List<Long> all = LongStream.range(0, 3000).boxed().collect(Collectors.toList());
    numbers = session.createDataset(all, Encoders.LONG()).repartition(3).cache();
    assertEquals(3000, numbers.count());
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  /** A fit of a line's slope by steps that depend on all rows, with a checkpoint after each. */
  private static double[] slope(Communicator ranks, Iterable<Long> rows) {
    Communicator.Loaded start = ranks.load();
    double[] model = {start.model().map(bytes -> ByteBuffer.wrap(bytes).getDouble()).orElse(0.0)};
    for (int version = start.version(); version < VERSIONS; version++) {
      double[] sums = {0, 0};
      for (long x : rows) {
        sums[0] += (3 * x - model[0] * x) * x;
        sums[1] += (double) x * x;
      }
      ranks.allreduce(sums, Reduction.SUM);
      model[0] += 0.5 * sums[0] / sums[1];
      ranks.checkpoint(ByteBuffer.allocate(Double.BYTES).putDouble(model[0]).array());
    }
    return model;
  }

  private static <M extends Serializable> M train(String faults, RankFunction<Long, M> function) {
    return RejoinSpark.train(
        numbers, 3, function, new RejoinSpark.Options().faultsForTests(Faults.parse(faults)));
  }

  private static RejoinException refused(RankFunction<Long, ? extends Serializable> function) {
    return assertThrows(RejoinException.class, () -> train("", function));
  }

  @Test
  void a_function_is_trained_on_all_rows_and_its_model_comes_back() {
    double[] model = train("", RejoinSparkTest::slope);
    assertEquals(3 * (1 - Math.pow(0.5, VERSIONS)), model[0], 1e-9);
  }

  @Test
  void deaths_of_any_rank_at_any_moment_change_no_bit_of_the_model() {
    double[] undisturbed = train("", RejoinSparkTest::slope);
    for (String fault :
        List.of(
            "rank=0,version=0,seqno=0,do=throw",
            "rank=1,version=4,seqno=0,do=throw",
            "rank=2,version=7,at=checkpoint,do=throw",
            "rank=1,version=2,seqno=0,do=throw|rank=1,incarnation=1,version=5,seqno=0,do=throw",
            "rank=0,version=3,seqno=0,do=throw|rank=2,version=3,seqno=0,do=throw")) {
      List<TrainingEvent> events = Collections.synchronizedList(new ArrayList<>());
      double[] model =
          RejoinSpark.train(
              numbers,
              3,
              RejoinSparkTest::slope,
              new RejoinSpark.Options()
                  .faultsForTests(Faults.parse(fault))
                  .eventListener(events::add));
      assertArrayEquals(undisturbed, model, 0, fault);
      long deaths = events.stream().filter(e -> e.kind() == TrainingEvent.Kind.RANK_LOST).count();
      assertEquals(fault.split("\\|").length, deaths, fault);
    }
  }

  /** How many ranks there are, and the sum of all rows. */
  private static long[] ranksAndSum(Communicator ranks, Iterable<Long> rows) {
    ranks.load();
    long[] sums = {1, 0};
    rows.forEach(row -> sums[1] += row);
    ranks.allreduce(sums, Reduction.SUM);
    return sums;
  }

  @Test
  void partitions_that_adaptive_execution_coalesces_are_divided_among_the_workers() {
    for (String coalesce : List.of("true", "false")) {
      session.conf().set("spark.sql.adaptive.coalescePartitions.enabled", coalesce);
      session.conf().set("spark.sql.shuffle.partitions", "20");
      Dataset<Long> distinct = numbers.distinct();
      try {
        int partitions = distinct.rdd().getNumPartitions();
        assertTrue(coalesce.equals("true") ? partitions < 3 : partitions == 20, "" + partitions);
        long[] model = RejoinSpark.train(distinct, 3, RejoinSparkTest::ranksAndSum);
        assertArrayEquals(new long[] {3, 2999 * 1500}, model);
      } finally {
        session.conf().unset("spark.sql.adaptive.coalescePartitions.enabled");
        session.conf().set("spark.sql.shuffle.partitions", "3");
      }
    }
  }

  @Test
  void what_lies_behind_a_shuffle_is_computed_once() {
    LongAccumulator read = session.sparkContext().longAccumulator();
    Dataset<Long> counted =
        numbers
            .map(
                (MapFunction<Long, Long>)
                    x -> {
                      read.add(1);
                      return x;
                    },
                Encoders.LONG())
            .repartition(3);
    long[] model = RejoinSpark.train(counted, 3, RejoinSparkTest::ranksAndSum);
    assertArrayEquals(new long[] {3, 2999 * 1500}, model);
    assertEquals(3000, read.sum());
  }

  @Test
  void texts_that_are_kept_stay_what_they_are_when_the_next_page_is_read() {
    // A megabyte of each partition makes a page, and there are three or so.
    Dataset<String> texts =
        session
            .range(0, 3000, 1, 3)
            .selectExpr("concat(id, ' ', repeat('x', 3000))")
            .as(Encoders.STRING());
    int[] wrong =
        RejoinSpark.train(
            texts,
            3,
            (ranks, rows) -> {
              ranks.load();
              List<String> kept = new ArrayList<>();
              rows.forEach(kept::add);
              int[] seen = {kept.size(), 0};
              for (int i = 0; i < kept.size(); i++) {
                String expected = ranks.rank() * 1000 + i + " " + "x".repeat(3000);
                seen[1] += kept.get(i).equals(expected) ? 0 : 1;
              }
              ranks.allreduce(seen, Reduction.SUM);
              return seen;
            });
    assertArrayEquals(new int[] {3000, 0}, wrong);
  }

  @Test
  void rows_can_be_read_as_often_as_wanted_and_come_in_the_same_order() {
    int[] hashes =
        train(
            "",
            (ranks, rows) -> {
              ranks.load();
              List<Long> once = new ArrayList<>();
              List<Long> again = new ArrayList<>();
              rows.forEach(once::add);
              rows.forEach(again::add);
              int[] same = {once.equals(again) ? 1 : 0, once.size()};
              ranks.allreduce(same, Reduction.SUM);
              return same;
            });
    assertArrayEquals(new int[] {3, 3000}, hashes);
  }

  /** The rows of a data frame come through an iterator that reads ahead only where it is asked. */
  @Test
  void rows_come_to_who_takes_them_without_asking_whether_there_are_more() {
    String[] ends =
        RejoinSpark.train(
            session.range(0, 30, 1, 3).toDF(),
            3,
            (ranks, rows) -> {
              ranks.load();
              Iterator<Row> each = rows.iterator();
              for (int taken = 0; taken < 10; taken++) {
                each.next();
              }
              NoSuchElementException end = assertThrows(NoSuchElementException.class, each::next);
              return new String[] {end.getMessage()};
            });
    assertArrayEquals(new String[] {"there is no further element"}, ends);
  }

  @Test
  void any_number_of_partitions_is_divided_among_the_workers() {
    for (int partitions : new int[] {1, 2, 7}) {
      long[] seen =
          RejoinSpark.train(
              numbers.repartition(partitions),
              3,
              (ranks, rows) -> {
                ranks.load();
                long[] sum = {0};
                rows.forEach(x -> sum[0] += x);
                ranks.allreduce(sum, Reduction.SUM);
                return sum;
              });
      assertArrayEquals(new long[] {3000L * 2999 / 2}, seen, partitions + " partitions");
    }
  }

  @Test
  void data_frames_give_rows_and_a_rank_may_have_none() {
    Dataset<Row> one = numbers.filter("value = 7").toDF();
    String[] seen =
        RejoinSpark.train(
            one,
            3,
            (ranks, rows) -> {
              ranks.load();
              int[] count = {0};
              rows.forEach(row -> count[0] += (int) row.<Long>getAs("value").longValue());
              ranks.allreduce(count, Reduction.SUM);
              return new String[] {"sum " + count[0]};
            });
    assertArrayEquals(new String[] {"sum 7"}, seen);
  }

  private static final AtomicInteger THROWN = new AtomicInteger();

  @Test
  void an_exception_of_the_function_is_tried_again_where_the_others_are() {
    double[] undisturbed = train("", RejoinSparkTest::slope);
    THROWN.set(0);
    double[] model =
        train(
            "",
            (ranks, rows) -> {
              double[] done = slope(ranks, rows);
              if (ranks.rank() == 1 && THROWN.getAndIncrement() < 2) {
                throw new IllegalStateException("this try fails");
              }
              return done;
            });
    assertArrayEquals(undisturbed, model, 0);
    assertEquals(3, THROWN.get());
  }

  @Test
  void a_function_that_always_throws_ends_the_job_with_what_it_threw_and_how_often() {
    RejoinException failure =
        refused(
            (ranks, rows) -> {
              ranks.load();
              throw new IllegalStateException("no luck at rank " + ranks.rank());
            });
    assertEquals(RejoinException.Code.UNRECOVERABLE, failure.code(), failure.text());
    assertTrue(failure.text().contains("no luck at rank"), failure.text());
    assertTrue(failure.text().contains("local[threads,failures]"), failure.text());
  }

  private static final AtomicInteger MODELS = new AtomicInteger();

  @Test
  void models_that_differ_between_ranks_are_no_model_and_nothing_is_tried_again() {
    MODELS.set(0);
    RejoinException failure =
        refused(
            (ranks, rows) -> {
              ranks.load();
              MODELS.incrementAndGet();
              return new int[] {ranks.rank()};
            });
    assertEquals(RejoinException.Code.MISMATCH, failure.code(), failure.text());
    assertTrue(MODELS.get() <= 3, "" + MODELS);
  }

  @Test
  void a_model_that_cannot_be_serialized_ends_the_job_at_once_with_its_class() {
    RejoinException failure =
        refused(
            (ranks, rows) -> {
              ranks.load();
              return new ArrayList<>(List.of(new Object()));
            });
    assertEquals(RejoinException.Code.TRAINING_FAILED, failure.code(), failure.text());
    assertTrue(failure.text().contains("java.lang.Object"), failure.text());
  }

  @Test
  void a_function_that_never_loads_is_told_where_to() {
    RejoinException failure =
        refused(
            (ranks, rows) -> {
              int[] one = {1};
              ranks.allreduce(one, Reduction.SUM);
              return one;
            });
    assertEquals(RejoinException.Code.BAD_STATE, failure.code(), failure.text());
    assertTrue(failure.text().contains("RejoinSparkTest"), failure.text());
  }

  @Test
  void what_cannot_work_is_refused_before_anything_is_stored() {
    for (int workers : new int[] {0, 4}) {
      RejoinException failure =
          assertThrows(
              RejoinException.class,
              () -> RejoinSpark.train(numbers, workers, RejoinSparkTest::slope));
      assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code(), failure.text());
      assertTrue(failure.text().contains(workers == 0 ? "at least 1" : "4 workers"));
    }
  }

  @Test
  void nothing_is_left_stored_after_a_training() {
    train("", RejoinSparkTest::slope);
    List<String> stored =
        JavaSparkContext.fromSparkContext(session.sparkContext())
            .getPersistentRDDs()
            .values()
            .stream()
            .map(rdd -> String.valueOf(rdd.name()))
            .filter(name -> name.startsWith("rejoin"))
            .collect(Collectors.toList());
    assertEquals(List.of(), stored);
  }

  @Test
  void a_function_that_holds_what_cannot_be_sent_is_refused_with_its_class() {
    Object held = new Object();
    RejoinException failure =
        refused(
            (ranks, rows) -> {
              ranks.load();
              return new int[] {held.hashCode()};
            });
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code(), failure.text());
    assertTrue(failure.text().contains("java.lang.Object"), failure.text());
  }

  /** How often rows were lost: what is computed from now on says so. */
  private static final AtomicInteger LOST = new AtomicInteger();

  private static int losses;

  /** Rows that say how often rows were lost when they were computed, before a shuffle and after. */
  private static Dataset<Long> losable(int howOften) {
    LOST.set(0);
    losses = howOften;
    return session
        .range(0, 300, 1, 3)
        .map((MapFunction<Long, Long>) x -> 100L * LOST.get(), Encoders.LONG())
        .repartition(3)
        .map((MapFunction<Long, Long>) x -> x + LOST.get(), Encoders.LONG());
  }

  /**
   * The least and (negative) the largest of all rows, and the latest version (negative) at which a
   * rank has begun. Rank 1 dies after its first checkpoint, its stored rows with it.
   */
  private static long[] losing(Communicator ranks, Iterable<Long> rows) {
    long[] seen = {Long.MAX_VALUE, Long.MAX_VALUE, -ranks.load().version()};
    for (long row : rows) {
      seen[0] = Math.min(seen[0], row);
      seen[1] = Math.min(seen[1], -row);
    }
    ranks.allreduce(seen, Reduction.MIN);
    ranks.checkpoint(new byte[] {1});
    if (ranks.rank() == 1 && LOST.get() < losses) {
      LOST.incrementAndGet();
      JavaSparkContext.fromSparkContext(session.sparkContext())
          .getPersistentRDDs()
          .forEach(
              (id, rdd) -> {
                if ("rejoin training input".equals(rdd.name())) {
                  SparkEnv.get().blockManager().removeBlock(new RDDBlockId(id, 1), true);
                }
              });
      throw new IllegalStateException("dies");
    }
    ranks.barrier();
    return seen;
  }

  @Test
  void rows_that_are_lost_and_come_back_as_others_make_the_training_begin_again_on_these_alone() {
    long[] model = RejoinSpark.train(losable(2), 3, RejoinSparkTest::losing);
    assertArrayEquals(new long[] {202, -202, 0}, model);
  }

  @Test
  void a_training_begins_again_as_often_as_a_rank_may_die_and_then_ends_with_what_was_lost() {
    Dataset<Long> rows = losable(Integer.MAX_VALUE);
    RejoinException failure =
        assertThrows(
            RejoinException.class, () -> RejoinSpark.train(rows, 3, RejoinSparkTest::losing));
    assertEquals(RejoinException.Code.INPUT_LOST, failure.code(), failure.text());
    assertTrue(failure.text().contains("3 times, the second number"), failure.text());
    assertEquals(4, LOST.get());
  }

  @Test
  void a_training_ends_with_what_was_lost_where_it_is_not_to_begin_again() {
    session.conf().set("spark.rejoin.input.lost", "fail");
    try {
      Dataset<Long> rows = losable(1);
      RejoinException failure =
          assertThrows(
              RejoinException.class, () -> RejoinSpark.train(rows, 3, RejoinSparkTest::losing));
      assertEquals(RejoinException.Code.INPUT_LOST, failure.code(), failure.text());
      assertTrue(failure.text().contains("the rows of rank 1"), failure.text());
    } finally {
      session.conf().unset("spark.rejoin.input.lost");
    }
  }

  private static Thread driver;

  @Test
  void an_interrupt_of_the_driver_ends_a_training_that_would_go_on_for_ever() {
    driver = Thread.currentThread();
    RejoinException failure =
        refused(
            (ranks, rows) -> {
              ranks.load();
              if (ranks.rank() == 0) {
                driver.interrupt();
              }
              while (true) {
                ranks.barrier();
              }
            });
    assertTrue(Thread.interrupted());
    assertEquals(RejoinException.Code.CANCELLED, failure.code(), failure.text());
  }
}
