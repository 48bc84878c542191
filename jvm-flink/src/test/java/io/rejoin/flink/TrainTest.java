package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** In one process: what a trainer sees, and what comes out. Deaths are for real clusters. */
class TrainTest {
  /** The sum of all rows of all ranks. */
  private static final class Sum implements TrainerFunction<Long, Long> {
    private static final long serialVersionUID = 1L;

    @Override
    public Long open(TrainerContext context) {
      return 0L;
    }

    @Override
    public Long onBatch(List<Long> batch, Communicator ranks, Long model) {
      long[] sum = {batch.stream().mapToLong(Long::longValue).sum()};
      ranks.allreduce(sum, Reduction.SUM);
      return model + sum[0];
    }

    @Override
    public byte[] write(Long model) {
      return ByteBuffer.allocate(Long.BYTES).putLong(model).array();
    }

    @Override
    public Long read(byte[] bytes) {
      return ByteBuffer.wrap(bytes).getLong();
    }
  }

  @Test
  @Timeout(120)
  void all_rows_of_all_ranks_are_in_the_last_model_once() throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(3);
    Configuration settings = new Configuration();
    settings.setString("rejoin.batch.rows", "100");
    // Its results are collected by a sink of parallelism 1.
    settings.setString("rejoin.allow-region-restart", "true");
    settings.setString("rejoin.tracker.host", "127.0.0.1");
    CloseableIterator<TrainedModel> models =
        Rejoin.train(
                env.fromSource(
                    new NumberSequenceSource(1, 10_000),
                    WatermarkStrategy.noWatermarks(),
                    "numbers",
                    Types.LONG),
                new Sum(),
                settings)
            .executeAndCollect();
    TrainedModel model = null;
    while (models.hasNext()) {
      model = models.next();
    }
    assertEquals(10_000L * 10_001 / 2, model.read(new Sum()));
    assertTrue(model.isLast());
  }
}
