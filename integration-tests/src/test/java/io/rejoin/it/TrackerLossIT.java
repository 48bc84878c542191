package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import io.rejoin.Secret;
import io.rejoin.settings.CommonSettings;
import io.rejoin.xgboost.XgboostAgent;
import io.rejoin.xgboost.XgboostMember;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The driver's process is gone, or was never there: what executors do, and when. */
@DisplayName("without a driver executors wait as long as is set, and no longer")
class TrackerLossIT {
  private static final Duration WAIT_LIMIT = Duration.ofSeconds(60);

  @TempDir Path folder;

  private XgboostAgent agent(JobId job, Secret secret, String tracker, long trackerTimeoutMillis) {
    return XgboostAgent.open(
        job,
        secret,
        new AgentSettings(tracker)
            .place("here", "127.0.0.1", "localhost")
            .spillDirectory(folder.toString())
            .with(CommonSettings.of(Map.of("tracker.timeout", trackerTimeoutMillis + "ms"))));
  }

  @Test
  void a_lease_is_how_long_an_executor_without_a_driver_keeps_what_it_holds() throws Exception {
    Duration lease = Duration.ofMillis(1_500);
    JobId job = JobId.random();
    Secret secret = Secret.random();
    try (TrackerProcess tracker = new TrackerProcess(job, secret, lease.toMillis(), folder);
        // The time-out of the start is not what counts later.
        XgboostAgent agent = agent(job, secret, tracker.address(), 100);
        XgboostMember member =
            agent.join(0, 0, 0, "terms", WAIT_LIMIT.toMillis(), Optional::empty)) {
      assertFalse(agent.over());
      long killed = System.nanoTime();
      tracker.kill();
      RejoinException failure = failureOf(member);
      long kept = System.nanoTime() - killed;
      assertTrue(kept >= lease.toNanos(), "it gave up after " + kept / 1_000_000 + " ms");
      assertEquals(Code.TRACKER_UNREACHABLE, failure.code(), failure.getMessage());
      assertTrue(failure.text().contains("for 1 s"), failure.text());
      assertTrue(failure.text().contains("Check that it is alive"), failure.text());
      awaitEnd(agent);
    }
  }

  @Test
  void a_join_waits_for_a_driver_as_long_as_the_trackers_time_out() throws Exception {
    String nobody = "127.0.0.1:1";
    for (long millis : new long[] {1_000, 2_000}) {
      try (XgboostAgent agent = agent(JobId.random(), Secret.random(), nobody, millis)) {
        long start = System.nanoTime();
        RejoinException failure =
            assertThrows(
                RejoinException.class,
                () -> agent.join(0, 0, 0, "terms", WAIT_LIMIT.toMillis(), Optional::empty));
        long waited = System.nanoTime() - start;
        assertTrue(waited < WAIT_LIMIT.toNanos(), "the join's own time-out was reached");
        assertEquals(Code.TRACKER_UNREACHABLE, failure.code(), failure.getMessage());
        String text = "for " + millis / 1000 + " s";
        assertTrue(failure.text().contains(text), failure.text());
      }
    }
  }

  private static RejoinException failureOf(XgboostMember member) throws InterruptedException {
    long deadline = System.nanoTime() + WAIT_LIMIT.toNanos();
    for (; ; ) {
      Optional<RejoinException> failure = member.failure();
      if (failure.isPresent()) {
        return failure.get();
      }
      assertTrue(
          System.nanoTime() < deadline, "the member doesn't notice that no tracker is there");
      Thread.sleep(20); // Between two looks; the deadline decides, not this.
    }
  }

  private static void awaitEnd(XgboostAgent agent) throws InterruptedException {
    long deadline = System.nanoTime() + WAIT_LIMIT.toNanos();
    while (!agent.over()) {
      assertTrue(System.nanoTime() < deadline, "the agent goes on without a driver");
      Thread.sleep(20); // Between two looks; the deadline decides, not this.
    }
  }
}
