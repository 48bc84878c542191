package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.Communicator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Flink's checkpoints while some ranks' tasks have ended and others' not yet, in one process. */
class PartEndedTest {
  private static final int ROWS = 1_000;
  private static final CountDownLatch CHECKPOINT = new CountDownLatch(1);
  private static final CountDownLatch RANK_0_HAS_ENDED = new CountDownLatch(1);
  // Rank 0 is gone for good one checkpoint after its end, if Flink completes that.
  private static final CountDownLatch CHECKPOINTS_OF_RANK_1 = new CountDownLatch(20);
  private static volatile boolean lingers = true;
  private static volatile TrainedModel last;

  /** Waits with its second batch for a checkpoint; rank 1 lingers when all is trained. */
  private static final class Lingering extends Checksum {
    private static final long serialVersionUID = 1L;

    private transient int rank;

    @Override
    public long[] open(TrainerContext context) throws Exception {
      rank = context.rank();
      return super.open(context);
    }

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      if (model[Checksum.ROWS] > 0) {
        CHECKPOINT.await();
      }
      return super.onBatch(batch, ranks, model);
    }

    @Override
    public void close() throws Exception {
      if (rank == 1 && lingers) {
        new CountDownLatch(1).await();
      }
    }
  }

  private static final class Watching extends AbstractStreamOperator<TrainedModel>
      implements OneInputStreamOperator<TrainedModel, TrainedModel>, BoundedOneInput {
    private static final long serialVersionUID = 1L;

    @Override
    public void processElement(StreamRecord<TrainedModel> model) {
      last = model.getValue();
    }

    @Override
    public void endInput() {
      RANK_0_HAS_ENDED.countDown();
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
      super.snapshotState(context);
      boolean isRank1 = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 1;
      if (isRank1 && RANK_0_HAS_ENDED.getCount() == 0) {
        CHECKPOINTS_OF_RANK_1.countDown();
      }
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
      CHECKPOINT.countDown();
    }
  }

  private static JobClient begin(Configuration settings) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    Rejoin.train(env.fromSequence(1, ROWS).returns(Types.LONG).uid("rows"), new Lingering())
        .uid("train")
        .transform("watch", TypeInformation.of(TrainedModel.class), new Watching())
        .sinkTo(new DiscardingSink<>());
    return env.executeAsync();
  }

  private static Path newest(Path checkpoints) throws IOException {
    try (Stream<Path> files = Files.walk(checkpoints)) {
      return files
          .filter(file -> file.endsWith("_metadata"))
          .max(Comparator.comparing(file -> file.toFile().lastModified()))
          .orElseThrow()
          .getParent();
    }
  }

  @Test
  @Timeout(180)
  void a_job_goes_on_from_a_checkpoint_that_was_made_when_one_rank_had_ended_and_one_had_not(
      @TempDir Path checkpoints) throws Exception {
    Configuration settings = LocalJob.settings(50, 0);
    settings.setString("rejoin.buffer.batches", "100");
    settings.setString("execution.checkpointing.interval", "50ms");
    settings.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
    settings.setString(
        "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    JobClient job = begin(settings);
    CHECKPOINTS_OF_RANK_1.await();
    job.cancel().get(1, TimeUnit.MINUTES);

    lingers = false;
    settings.setString("execution.state-recovery.path", newest(checkpoints).toUri().toString());
    begin(settings).getJobExecutionResult().get(2, TimeUnit.MINUTES);
    long[] model = new Checksum().read(last.getBytes());
    assertEquals(ROWS, model[Checksum.ROWS]);
    assertEquals(ROWS * (ROWS + 1L) / 2, model[Checksum.SUM]);
  }
}
