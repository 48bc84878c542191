package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A job that Flink stops with a savepoint, in one process. */
class StopTest {
  private static final CountDownLatch TRAINS = new CountDownLatch(1);
  private static final CountDownLatch TASK_ENDS = new CountDownLatch(1);
  private static final CountDownLatch WENT_ON = new CountDownLatch(1);

  /** Its second version is complete, and its third one begins, when its task ends. */
  private static final class Lasting extends Checksum {
    private static final long serialVersionUID = 1L;

    private transient int versions;

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      versions++;
      if (versions == 2) {
        TRAINS.countDown();
        TASK_ENDS.await();
      } else if (versions == 3) {
        WENT_ON.countDown();
      }
      return super.onBatch(batch, ranks, model);
    }
  }

  /** Before and behind the trainer: one of the two is closed before it. */
  private static final class Closing<T> extends RichMapFunction<T, T> {
    private static final long serialVersionUID = 1L;

    private final boolean rests;

    /** {@code rests}: so that rows don't come faster than Flink's threads do all else. */
    Closing(boolean rests) {
      this.rests = rests;
    }

    @Override
    public T map(T row) throws Exception {
      if (rests) {
        Thread.sleep(1);
      }
      return row;
    }

    @Override
    public void close() throws Exception {
      TASK_ENDS.countDown();
      WENT_ON.await(20, TimeUnit.SECONDS);
    }
  }

  @Test
  @Timeout(120)
  void a_model_that_comes_when_the_task_ends_does_not_spoil_the_stop(@TempDir Path savepoints)
      throws Exception {
    Configuration settings = LocalJob.settings(1_000, 0);
    settings.setString("rejoin.buffer.batches", "1000");
    settings.setString("rejoin.batch.wait", "1ms");
    settings.setString("rejoin.emit.versions", "1");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    Rejoin.train(
            env.fromSequence(1, Long.MAX_VALUE - 1)
                .map(new Closing<Long>(true))
                .returns(Types.LONG),
            new Lasting())
        .map(new Closing<TrainedModel>(false))
        .returns(TrainedModel.class)
        .sinkTo(new DiscardingSink<>());
    JobClient job = env.executeAsync();
    TRAINS.await();
    job.stopWithSavepoint(false, savepoints.toUri().toString(), SavepointFormatType.CANONICAL)
        .get(1, TimeUnit.MINUTES);
    job.getJobExecutionResult().get(1, TimeUnit.MINUTES);
    assertTrue(WENT_ON.await(0, TimeUnit.SECONDS), "a version was complete when the task ended");
  }

  /** Models that fill a buffer of Flink's network each. */
  private static final class Large extends Checksum {
    private static final long serialVersionUID = 1L;

    @Override
    public byte[] write(long[] model) {
      return Arrays.copyOf(super.write(model), 64 << 10);
    }
  }

  /** Takes models more slowly than they are made. */
  private static final class Slow implements MapFunction<TrainedModel, TrainedModel> {
    private static final long serialVersionUID = 1L;
    private static final Semaphore MODELS = new Semaphore(0);

    @Override
    public TrainedModel map(TrainedModel model) throws Exception {
      MODELS.release();
      Thread.sleep(50);
      return model;
    }
  }

  @Test
  @Timeout(180)
  void a_job_by_rejoin_source_is_stopped_while_rank_0_finds_no_room_for_its_models(
      @TempDir Path savepoints) throws Exception {
    Configuration settings = LocalJob.settings(10, 0);
    settings.setString("rejoin.emit.versions", "20");
    // Flink doesn't come to a savepoint in any order: more than once, so that it shows.
    for (int job = 0; job < 5; job++) {
      stopWhileModelsWait(settings, savepoints);
    }
  }

  private static void stopWhileModelsWait(Configuration settings, Path savepoints)
      throws Exception {
    Slow.MODELS.drainPermits();
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    SplitStream<Long> rows =
        Rejoin.source(
            env,
            new NumberSequenceSource(1, Long.MAX_VALUE - 1),
            WatermarkStrategy.noWatermarks(),
            "rows");
    // In a task of its own, so that there are buffers between, which fill up.
    Rejoin.train(rows, new Large())
        .map(new Slow())
        .disableChaining()
        .sinkTo(new DiscardingSink<>());
    JobClient job = env.executeAsync();
    Slow.MODELS.acquire(10);
    job.stopWithSavepoint(false, savepoints.toUri().toString(), SavepointFormatType.CANONICAL)
        .get(1, TimeUnit.MINUTES);
    job.getJobExecutionResult().get(1, TimeUnit.MINUTES);
  }
}
