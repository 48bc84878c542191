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
import java.util.stream.LongStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Three ranks and a spare as threads of one JVM. */
@Timeout(120)
class SparesTest {
  private static final int VERSIONS = 8;

  /** Version 4 and version 6 wait until so many tasks have come to stand by. */
  private static volatile CountDownLatch inVersion4;

  private static volatile CountDownLatch inVersion6;
  private static SparkSession session;
  private static Dataset<Long> numbers;

  private final List<TrainingEvent> events = Collections.synchronizedList(new ArrayList<>());

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[4,4]");
    session.conf().set("spark.rejoin.spares", "1");
    List<Long> all = LongStream.range(0, 3000).boxed().collect(Collectors.toList());
    numbers = session.createDataset(all, Encoders.LONG()).repartition(3).cache();
    assertEquals(3000, numbers.count());
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  /** All rows count once: a rank that read another one's would change the model. */
  private static double[] train(Communicator ranks, Iterable<Long> rows) {
    Communicator.Loaded start = ranks.load();
    double[] model = {start.model().map(bytes -> ByteBuffer.wrap(bytes).getDouble()).orElse(1.0)};
    for (int version = start.version(); version < VERSIONS; version++) {
      if (version == 4) {
        await(inVersion4);
      } else if (version == 6) {
        await(inVersion6);
      }
      double[] sum = {0};
      rows.forEach(row -> sum[0] += row);
      ranks.allreduce(sum, Reduction.SUM);
      model[0] = model[0] / 2 + sum[0];
      ranks.checkpoint(ByteBuffer.allocate(Double.BYTES).putDouble(model[0]).array());
    }
    return model;
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(60, TimeUnit.SECONDS), "no task has come to stand by");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  private double[] train(String faults, int before4, int before6) {
    inVersion4 = new CountDownLatch(before4);
    inVersion6 = new CountDownLatch(before6);
    events.clear();
    return RejoinSpark.train(
        numbers,
        3,
        SparesTest::train,
        new RejoinSpark.Options().faultsForTests(Faults.parse(faults)).eventListener(this::take));
  }

  private void take(TrainingEvent event) {
    events.add(event);
    if (event.kind() == Kind.SPARE_STANDS_BY) {
      inVersion4.countDown();
      inVersion6.countDown();
    }
  }

  private List<String> taken() {
    return events.stream()
        .filter(event -> event.kind() == Kind.SPARE_TOOK)
        .map(event -> event.sentence("task {index} takes rank {rank}"))
        .collect(Collectors.toList());
  }

  @Test
  void a_spare_trains_on_the_rows_of_the_rank_whose_task_has_thrown_and_the_model_is_the_same() {
    double[] undisturbed = train("", 0, 0);
    assertEquals(List.of(), taken());
    double[] model = train("rank=1,version=4,seqno=0,do=throw", 1, 0);
    assertArrayEquals(undisturbed, model, 0);
    assertEquals(List.of("task 3 takes rank 1"), taken());
  }

  @Test
  void the_task_that_is_tried_again_is_the_next_spare_for_any_rank() {
    double[] undisturbed = train("", 0, 0);
    double[] model =
        train("rank=1,version=4,seqno=0,do=throw|rank=2,version=6,seqno=0,do=throw", 1, 2);
    assertArrayEquals(undisturbed, model, 0);
    assertEquals(List.of("task 3 takes rank 1", "task 1 takes rank 2"), taken());
    List<String> joined =
        events.stream()
            .filter(event -> event.kind() == Kind.RANK_JOINED && event.number("incarnation") == 1)
            .map(event -> event.sentence("rank {rank} is task {index}, attempt {stage}.{task}"))
            .collect(Collectors.toList());
    assertEquals(List.of("rank 1 is task 3, attempt 0.0", "rank 2 is task 1, attempt 0.1"), joined);
  }

  @Test
  void a_fit_needs_a_slot_for_each_spare_and_says_so() {
    session.conf().set("spark.rejoin.spares", "2");
    try {
      RejoinException failure = assertThrows(RejoinException.class, () -> train("", 0, 0));
      assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
      assertTrue(
          failure.text().contains("3 workers must train at the same time and 2 spares stand by")
              && failure.text().contains("has 4 slots")
              && failure.text().contains("use local[5,4]"),
          failure.text());
    } finally {
      session.conf().set("spark.rejoin.spares", "1");
    }
  }
}
