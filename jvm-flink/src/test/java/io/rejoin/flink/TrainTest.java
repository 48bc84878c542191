package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.MDC;

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
      // What a user's function logs can name its rank.
      assertEquals(String.valueOf(ranks.rank()), MDC.get("rejoin.rank"));
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
    assertEquals(10_000L * 10_001 / 2, sum(new Configuration()));
  }

  @Test
  @Timeout(120)
  void ranks_with_slots_of_their_own_get_their_rows_from_other_tasks() throws Exception {
    Configuration own = new Configuration();
    own.set(RejoinOptions.SLOT_SHARING_GROUP, "ranks");
    assertEquals(10_000L * 10_001 / 2, sum(own));
  }

  private static long sum(Configuration settings) throws Exception {
    Configuration slots = Configuration.fromMap(Map.of("taskmanager.numberOfTaskSlots", "7"));
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(3, slots);
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
    assertTrue(model.isLast());
    return model.read(new Sum());
  }

  /** What the trainers of one process see of each other; a latch that Flink's checkpoint opens. */
  private static final class Restart {
    private static final CountDownLatch CHECKPOINT = new CountDownLatch(1);
    private static final AtomicBoolean WAITS = new AtomicBoolean();
    private static final AtomicBoolean FAILED = new AtomicBoolean();
    private static final AtomicLong FIRST_AFTER = new AtomicLong(-1);
  }

  /** The sum, and a failure of rank 1 once Flink has a checkpoint with trained rows in it. */
  private static final class FailsOnce implements TrainerFunction<Long, Long> {
    private static final long serialVersionUID = 1L;

    private final Sum sum = new Sum();
    private int rank;

    @Override
    public Long open(TrainerContext context) {
      rank = context.rank();
      return 0L;
    }

    @Override
    public Long onBatch(List<Long> batch, Communicator ranks, Long model) throws Exception {
      if (Restart.FAILED.get()) {
        Restart.FIRST_AFTER.compareAndSet(-1, model);
      } else if (rank == 1 && model > 0) {
        Restart.WAITS.set(true);
        Restart.CHECKPOINT.await();
        Restart.FAILED.set(true);
        throw new IllegalStateException("a test lets the trainer fail");
      }
      return sum.onBatch(batch, ranks, model);
    }

    @Override
    public byte[] write(Long model) {
      return sum.write(model);
    }

    @Override
    public Long read(byte[] bytes) {
      return sum.read(bytes);
    }
  }

  /** Tells when a checkpoint is complete that was begun while the trainer waited for it. */
  private static final class Listening
      implements MapFunction<TrainedModel, TrainedModel>, CheckpointListener {
    private static final long serialVersionUID = 1L;

    private transient int completed;

    @Override
    public TrainedModel map(TrainedModel model) {
      return model;
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
      // One may have been under way; the second one began after the trainer did wait.
      if (Restart.WAITS.get() && ++completed == 2) {
        Restart.CHECKPOINT.countDown();
      }
    }
  }

  @Test
  @Timeout(120)
  void when_all_subtasks_are_restarted_they_go_on_from_the_newest_model_of_the_checkpoint()
      throws Exception {
    Configuration settings = LocalJob.settings(100, 2);
    // No input is ever full: a checkpoint would wait there until the trainer takes rows.
    settings.setString("rejoin.buffer.batches", "1000");
    settings.setString("rejoin.allow-region-restart", "true");
    settings.setString("execution.checkpointing.interval", "100ms");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(3, settings);
    CloseableIterator<TrainedModel> models =
        Rejoin.train(
                env.fromSource(
                    new NumberSequenceSource(1, 10_000),
                    WatermarkStrategy.noWatermarks(),
                    "numbers",
                    Types.LONG),
                new FailsOnce())
            .map(new Listening())
            .executeAndCollect();
    TrainedModel last = null;
    while (models.hasNext()) {
      last = models.next();
    }
    assertTrue(Restart.FAILED.get(), "the trainer has failed once");
    assertTrue(Restart.FIRST_AFTER.get() > 0, "training went on from " + Restart.FIRST_AFTER.get());
    assertEquals(10_000L * 10_001 / 2, last.read(new Sum()));
  }
}
