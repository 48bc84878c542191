package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.ExceptionUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How a job ends whose trainer fails, in one process. */
class FailureTest {
  private static final CountDownLatch SINK_IS_STUCK = new CountDownLatch(1);

  /** Fails when the sink has no room. */
  private static final class Failing extends Checksum {
    private static final long serialVersionUID = 1L;

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      if (model[ROWS] > 0) {
        SINK_IS_STUCK.await();
        throw new IllegalStateException("a test lets the trainer fail");
      }
      return super.onBatch(batch, ranks, model);
    }
  }

  @Test
  @Timeout(120)
  void a_job_ends_with_its_trainers_failure_though_its_sink_has_no_room() {
    Configuration settings = LocalJob.settings(10, 0);
    settings.setString("rejoin.emit.versions", "1");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    Rejoin.train(env.fromSequence(1, 1_000).returns(Types.LONG), new Failing())
        .map(
            model -> {
              SINK_IS_STUCK.countDown();
              new CountDownLatch(1).await();
              return model;
            })
        .sinkTo(new DiscardingSink<>());
    Exception failure = assertThrows(Exception.class, env::execute);
    assertTrue(
        ExceptionUtils.findThrowableWithMessage(failure, "a test lets the trainer fail")
            .isPresent(),
        () -> ExceptionUtils.stringifyException(failure));
  }

  /** Closes what isn't its to close. */
  private static final class Closing extends Checksum {
    private static final long serialVersionUID = 1L;

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      try (ranks) {
        return super.onBatch(batch, ranks, model);
      }
    }
  }

  @Test
  @Timeout(120)
  void a_call_that_can_not_be_made_ends_the_job_and_begins_no_gang_after_the_other() {
    Configuration settings = LocalJob.settings(10, 0);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    // Readers that were asking for another split would hear of none when their tasks have just
    // failed, and Flink would
    // name that in place of the failure.
    Rejoin.train(env.fromSequence(1, 1_000_000_000).returns(Types.LONG), new Closing())
        .sinkTo(new DiscardingSink<>());
    Exception failure = assertThrows(Exception.class, env::execute);
    String all = ExceptionUtils.stringifyException(failure);
    for (String part : List.of("BAD_STATE", "3 gangs in a row", "the trainer calls")) {
      assertTrue(all.contains(part), all);
    }
  }

  /** Changes its rows. */
  private static final class Scaling implements TrainerFunction<long[], long[]> {
    private static final long serialVersionUID = 1L;
    private static final CountDownLatch CHECKPOINT = new CountDownLatch(1);

    @Override
    public long[] open(TrainerContext context) {
      return new long[1];
    }

    @Override
    public long[] onBatch(List<long[]> batch, Communicator ranks, long[] model) throws Exception {
      batch.forEach(row -> row[0] *= 2);
      model[0] += batch.size();
      // A checkpoint comes, with rows of the newest version.
      Thread.sleep(10);
      return model;
    }

    @Override
    public byte[] write(long[] model) {
      return java.nio.ByteBuffer.allocate(Long.BYTES).putLong(model[0]).array();
    }

    @Override
    public long[] read(byte[] bytes) {
      return new long[] {java.nio.ByteBuffer.wrap(bytes).getLong()};
    }
  }

  @Test
  @Timeout(120)
  void a_trainer_that_changes_its_rows_ends_the_job_at_the_next_checkpoint() {
    Configuration settings = LocalJob.settings(10, 0);
    settings.setString("execution.checkpointing.interval", "50ms");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    Rejoin.train(
            env.fromSequence(1, 1_000_000).map(number -> new long[] {number}).returns(long[].class),
            new Scaling())
        .sinkTo(new DiscardingSink<>());
    Exception failure = assertThrows(Exception.class, env::execute);
    String all = ExceptionUtils.stringifyException(failure);
    assertTrue(all.contains("isn't what it was when it came"), all);
  }

  /** Rank 1 isn't open before its task ends. */
  private static final class Hanging extends Checksum {
    private static final long serialVersionUID = 1L;

    @Override
    public long[] open(TrainerContext context) throws Exception {
      if (context.rank() == 1) {
        new CountDownLatch(1).await();
      }
      return super.open(context);
    }
  }

  @Test
  @Timeout(120)
  void a_trainer_that_does_not_open_fails_its_task_with_what_to_look_at() {
    Configuration settings = LocalJob.settings(10, 0);
    settings.setString("rejoin.members.timeout", "1s");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    Rejoin.train(env.fromSequence(1, 1_000).returns(Types.LONG), new Hanging())
        .sinkTo(new DiscardingSink<>());
    Exception failure = assertThrows(Exception.class, env::execute);
    String all = ExceptionUtils.stringifyException(failure);
    for (String part :
        List.of(
            "TIMED_OUT: rank 1 of 2 (attempt 0)",
            "Hanging.open has not returned for 1000 ms",
            "thread rejoin-rank-1",
            "raise rejoin.members.timeout")) {
      assertTrue(all.contains(part), () -> part + " isn't in: " + all);
    }
  }
}
