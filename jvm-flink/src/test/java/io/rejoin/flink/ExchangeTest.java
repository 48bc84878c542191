package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Training in BATCH, behind an exchange of rows, in one process. */
@Timeout(120)
class ExchangeTest {
  private static final int WORLD = 3;
  private static final int ROWS = 3_000;
  private static final int BATCH = 100;
  private static final Map<String, long[]> MODELS = new ConcurrentHashMap<>();
  private static final AtomicInteger FAILURES = new AtomicInteger();

  /** Whose digest tells which rows were where in which batch; rank 1 fails once if it shall. */
  private static final class Failing extends Checksum {
    private static final long serialVersionUID = 1L;

    private final boolean fails;

    Failing(boolean fails) {
      this.fails = fails;
    }

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      if (fails && ranks.rank() == 1 && model[ROWS] > 0 && FAILURES.compareAndSet(0, 1)) {
        throw new IllegalStateException("a test lets the trainer fail");
      }
      return super.onBatch(batch, ranks, model);
    }
  }

  private static StreamExecutionEnvironment environment(RuntimeExecutionMode mode) {
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(WORLD, LocalJob.settings(BATCH, 1));
    environment.setRuntimeMode(mode);
    return environment;
  }

  /** All rows of each subtask's third, in an order of this seed. */
  private static DataStream<Long> rows(StreamExecutionEnvironment environment, long seed) {
    return RankRowsSource.stream(
        environment,
        Types.LONG,
        (rank, attempt) -> {
          List<Long> own = new ArrayList<>();
          for (long row = rank; row < ROWS; row += WORLD) {
            own.add(row);
          }
          Collections.shuffle(own, new Random(seed));
          return own;
        });
  }

  /** The model of rows that come in an order of this seed. */
  private static long[] train(String name, long seed, boolean fails) throws Exception {
    StreamExecutionEnvironment environment = environment(RuntimeExecutionMode.BATCH);
    DataStream<Long> rows = rows(environment, seed).keyBy(row -> row % 100);
    return trained(name, environment, Rejoin.train(rows, new Failing(fails)));
  }

  private static long[] trained(
      String name, StreamExecutionEnvironment environment, DataStream<TrainedModel> models)
      throws Exception {
    models
        .map(
            model -> {
              MODELS.put(name, model.read(new Checksum()));
              return model;
            })
        .sinkTo(new DiscardingSink<>());
    environment.execute();
    return MODELS.get(name);
  }

  @Test
  void neither_the_order_in_which_rows_come_nor_a_failure_changes_the_model() throws Exception {
    long[] model = train("first", 1, false);
    assertEquals(ROWS, model[Checksum.ROWS]);
    assertEquals((long) ROWS * (ROWS - 1) / 2, model[Checksum.SUM]);
    assertArrayEquals(model, train("another order", 2, false));
    assertArrayEquals(model, train("another order, and a failure", 3, true));
    assertEquals(1, FAILURES.get());
  }

  /** The rows of all batches of rank 0, in their order. */
  private static final class Keeping extends Checksum {
    private static final long serialVersionUID = 1L;
    private static final List<Long> OF_RANK_0 = Collections.synchronizedList(new ArrayList<>());

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      if (ranks.rank() == 0) {
        OF_RANK_0.addAll(batch);
      }
      return super.onBatch(batch, ranks, model);
    }
  }

  @Test
  void rows_are_trained_on_in_the_order_of_a_key_however_they_come() throws Exception {
    StreamExecutionEnvironment environment = environment(RuntimeExecutionMode.BATCH);
    DataStream<Long> rows = rows(environment, 4);
    long[] model =
        trained(
            "by a key",
            environment,
            Rejoin.trainInOrder(rows.rebalance(), row -> -(row / 10), new Keeping()));
    assertEquals(ROWS, model[Checksum.ROWS]);
    assertEquals((long) ROWS * (ROWS - 1) / 2, model[Checksum.SUM]);
    List<Long> sorted = new ArrayList<>(Keeping.OF_RANK_0);
    sorted.sort(Comparator.comparing(row -> -(row / 10)));
    // Each of the WORLD senders deals its rows out from a rank that Flink draws: one more or less.
    assertEquals(ROWS / WORLD, sorted.size(), WORLD);
    assertEquals(sorted, Keeping.OF_RANK_0);
  }

  @Test
  void an_order_by_a_key_is_refused_where_rows_are_trained_on_before_all_are_there() {
    StreamExecutionEnvironment environment = environment(RuntimeExecutionMode.STREAMING);
    Rejoin.trainInOrder(rows(environment, 5), row -> row, new Checksum())
        .sinkTo(new DiscardingSink<>());
    RejoinException refused =
        assertThrows(RejoinException.class, () -> environment.getStreamGraph());
    assertEquals(RejoinException.Code.BAD_ARGUMENT, refused.code());
    assertTrue(refused.text().contains("execution.runtime-mode=BATCH"), refused.text());
  }
}
