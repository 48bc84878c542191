package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.Communicator;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
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

  /** The model of rows that come in an order of this seed, all rows from each subtask's third. */
  private static long[] train(String name, long seed, boolean fails) throws Exception {
    Configuration settings = LocalJob.settings(BATCH, 1);
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(WORLD, settings);
    environment.setRuntimeMode(RuntimeExecutionMode.BATCH);
    DataStream<Long> rows =
        RankRowsSource.stream(
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
    Rejoin.train(rows.keyBy(row -> row % 100), new Failing(fails))
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
}
