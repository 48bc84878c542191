package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import java.util.AbstractList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What the others have of a rank that comes back, in one process. Deaths are for real clusters. */
class RestartedRankTest {
  private static final int BATCH = 100;
  private static final int LIMIT_SECONDS = 60;
  private static final CountDownLatch FIRST_VERSION = new CountDownLatch(2);
  private static final CountDownLatch SECOND_VERSION = new CountDownLatch(2);
  private static final AtomicBoolean WITHOUT_ROWS = new AtomicBoolean();

  /**
   * A rank's rows. Those of rank 1 are one batch and a row more; then its input idles, fails at its
   * first attempt, and goes on at its second one when there is a version without them.
   */
  private static final class Input extends AbstractList<Long> {
    private final int rank;
    private final int attempt;

    private Input(int rank, int attempt) {
      this.rank = rank;
      this.attempt = attempt;
    }

    @Override
    public int size() {
      return 2 * BATCH;
    }

    @Override
    public Long get(int row) {
      if (rank == 1 && row == BATCH + 1) {
        idle();
      }
      return (long) row;
    }

    private void idle() {
      try {
        CountDownLatch version = attempt == 0 ? FIRST_VERSION : SECOND_VERSION;
        boolean inTime = version.await(LIMIT_SECONDS, TimeUnit.SECONDS);
        if (attempt == 0) {
          throw new IllegalStateException("a test lets the input fail");
        }
        WITHOUT_ROWS.set(inTime);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** Counts versions. */
  private static final class Versions implements TrainerFunction<Long, Integer> {
    private static final long serialVersionUID = 1L;

    @Override
    public Integer open(TrainerContext context) {
      return 0;
    }

    @Override
    public Integer onBatch(List<Long> batch, Communicator ranks, Integer versions) {
      return versions + 1;
    }

    @Override
    public byte[] write(Integer versions) {
      if (versions == 1) {
        FIRST_VERSION.countDown();
      } else if (versions == 2) {
        SECOND_VERSION.countDown();
      }
      return new byte[] {versions.byteValue()};
    }

    @Override
    public Integer read(byte[] bytes) {
      return (int) bytes[0];
    }
  }

  @Test
  @Timeout(180)
  void the_first_batch_of_a_rank_that_comes_back_does_not_wait_for_rows() throws Exception {
    Configuration settings = LocalJob.settings(BATCH, 1);
    settings.setString("rejoin.batch.wait", "1h");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    Rejoin.train(RankRowsSource.stream(env, Types.LONG, Input::new), new Versions())
        .sinkTo(new DiscardingSink<>());
    env.execute();
    assertTrue(WITHOUT_ROWS.get(), "the second version was complete while rank 1 had no rows");
  }
}
