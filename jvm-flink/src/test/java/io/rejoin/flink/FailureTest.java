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
}
