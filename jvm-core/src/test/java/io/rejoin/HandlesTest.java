package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.xgboost.XgboostAgent;
import io.rejoin.xgboost.XgboostMember;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** What stands for a native object may be closed twice, and says so when it is used afterwards. */
class HandlesTest {
  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();

  private Tracker tracker() {
    return Tracker.open(job, secret, new Tracker.Settings(1, "127.0.0.1"));
  }

  private XgboostAgent agent(Tracker tracker, Path spill) {
    return XgboostAgent.open(
        job,
        secret,
        new AgentSettings(tracker.address())
            .place("here", "127.0.0.1", "localhost")
            .spillDirectory(spill.toString()));
  }

  private static void isClosed(Executable call) {
    RejoinException failure = assertThrows(RejoinException.class, call);
    assertEquals(RejoinException.Code.BAD_STATE, failure.code());
    assertTrue(failure.text().contains("closed"), failure.text());
  }

  @Test
  void a_tracker_may_be_closed_twice_and_not_used_after_it() {
    Tracker tracker = tracker();
    tracker.close();
    tracker.close();
    isClosed(tracker::address);
    isClosed(() -> tracker.poll(1));
    isClosed(tracker::result);
    isClosed(() -> tracker.executorGone("1", "a test"));
    isClosed(() -> tracker.cancel(RejoinException.Code.CANCELLED, "a test"));
  }

  @Test
  void an_agent_and_a_member_may_be_closed_twice_and_not_used_after_it(@TempDir Path spill) {
    try (Tracker tracker = tracker()) {
      XgboostAgent agent = agent(tracker, spill);
      XgboostMember member = agent.join(0, 0, 0, "terms", 30_000, Optional::empty);
      member.close();
      member.close();
      isClosed(member::start);
      isClosed(member::checkpoint);
      isClosed(member::local);
      isClosed(() -> member.communicator("tree"));
      isClosed(() -> member.enter(0, 0, null, null, false));
      isClosed(() -> member.finish(0, new byte[0], null, 1));
      assertEquals(Optional.empty(), member.failure());
      member.free(RejoinException.Code.CANCELLED, "nothing is left to be freed");

      agent.close();
      agent.close();
      assertTrue(agent.over());
      isClosed(() -> agent.join(0, 0, 1, "terms", 1, Optional::empty));
    }
  }

  @Test
  void a_member_outlives_neither_its_agent_nor_its_tracker_silently(@TempDir Path spill) {
    Tracker tracker = tracker();
    XgboostAgent agent = agent(tracker, spill);
    XgboostMember member = agent.join(0, 0, 0, "terms", 30_000, Optional::empty);
    agent.close();
    RejoinException failure =
        assertThrows(RejoinException.class, () -> member.finish(1, new byte[] {1}, null, 30_000));
    assertTrue(!failure.text().isEmpty());
    member.close();
    tracker.close();
  }
}
