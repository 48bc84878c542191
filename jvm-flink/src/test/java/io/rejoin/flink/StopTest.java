package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
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
}
