package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How a rank comes in, and how its wait ends when its task has to. */
class JoinTest {
  /** Reached only when something is broken. */
  private static final Communicator.Limits LIMITS = new Communicator.Limits(30_000, 30_000, 30_000);

  @TempDir Path folder;
  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final AtomicReference<String> reason = new AtomicReference<>();

  @AfterEach
  void stop() {
    threads.shutdownNow();
  }

  private Tracker tracker(int world) {
    return Tracker.open(job, secret, new Tracker.Settings(world, "127.0.0.1"));
  }

  private Agent agent(String tracker, String name, String host) {
    AgentSettings settings = new AgentSettings(tracker).ownCopies(1).durable(folder.toString(), 3);
    return Agent.open(job, secret, settings.place(name, "127.0.0.1", host));
  }

  private Agent agent(Tracker tracker, String name) {
    return agent(tracker.address(), name, "localhost");
  }

  private Optional<String> cancelled() {
    return Optional.ofNullable(reason.get());
  }

  private Future<Communicator> joins(Agent agent, int rank, int task) {
    return threads.submit(
        () -> agent.join(rank, 0, task, "a test", LIMITS, this::cancelled).orElseThrow());
  }

  private static <T> T result(Future<T> future) throws Exception {
    return future.get(60, TimeUnit.SECONDS);
  }

  private static void event(Tracker tracker, Predicate<TrainingEvent> wanted) {
    while (!wanted.test(tracker.poll(60_000).orElseThrow())) {
      // what happened before
    }
  }

  private static boolean joined(TrainingEvent event, int rank, int incarnation) {
    return event.kind() == TrainingEvent.Kind.RANK_JOINED
        && event.number("rank") == rank
        && event.number("incarnation") == incarnation;
  }

  private static String isCancelled(Future<?> waiting) {
    ExecutionException ended = assertThrows(ExecutionException.class, () -> result(waiting));
    RejoinException failure = (RejoinException) ended.getCause();
    assertEquals(RejoinException.Code.CANCELLED, failure.code(), failure.getMessage());
    return failure.text();
  }

  @Test
  void a_cancelled_join_ends_with_the_reason_and_the_ranks_next_try_has_its_slot()
      throws Exception {
    try (Tracker tracker = tracker(2);
        Agent agent = agent(tracker, "here")) {
      Future<Communicator> alone = joins(agent, 0, 0);
      event(tracker, event -> joined(event, 0, 0));
      reason.set("Flink cancels the job");
      String text = isCancelled(alone);
      assertTrue(text.contains("rank 0") && text.contains("Flink cancels the job"), text);
      event(tracker, event -> event.kind() == TrainingEvent.Kind.RANK_LOST);

      reason.set(null);
      Future<Communicator> again = joins(agent, 0, 1);
      Future<Communicator> other = joins(agent, 1, 0);
      try (Communicator first = result(again);
          Communicator second = result(other)) {
        assertEquals(1, first.incarnation());
        assertEquals(0, second.incarnation());
        assertEquals(0, first.load().version());
      }
    }
  }

  @Test
  void a_join_that_finds_no_tracker_is_cancelled_as_well() throws Exception {
    String gone;
    try (Tracker tracker = tracker(1)) {
      gone = tracker.address();
    }
    try (Agent agent = agent(gone, "here", "localhost")) {
      reason.set("Flink cancels the job");
      assertTrue(isCancelled(joins(agent, 0, 0)).contains("Flink cancels the job"));
    }
  }

  @Test
  void closing_the_agent_ends_a_join_that_waits() throws Exception {
    try (Tracker tracker = tracker(2)) {
      Agent agent = agent(tracker, "here");
      Future<Communicator> alone = joins(agent, 0, 0);
      event(tracker, event -> joined(event, 0, 0));
      agent.close();
      assertTrue(isCancelled(alone).contains("the agent was closed"));
    }
  }

  /**
   * The own models of versions 4 and 5 are lost with two processes, and version 3 is durable:
   * whoever was left is sent back, and waits for rank 2, which doesn't come.
   */
  private Communicator isSentBack(Tracker tracker, List<Agent> agents) throws Exception {
    String[] hosts = {"a", "a", "b"};
    List<Future<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < 3; rank++) {
      agents.add(agent(tracker.address(), "process " + rank, hosts[rank]));
      joining.add(joins(agents.get(rank), rank, 0));
    }
    List<Communicator> ranks = new ArrayList<>();
    for (Future<Communicator> one : joining) {
      ranks.add(result(one));
    }
    List<Future<?>> taken = new ArrayList<>();
    for (Communicator one : ranks) {
      Callable<Void> training =
          () -> {
            one.load();
            for (byte version = 1; version <= 5; version++) {
              one.checkpoint(new byte[] {version}, new byte[] {version, (byte) one.rank()});
            }
            return null;
          };
      taken.add(threads.submit(training));
    }
    for (Future<?> one : taken) {
      result(one);
    }
    // Rank 0's is the common model, and each has its own one.
    for (int written = 0; written < 4; written++) {
      event(tracker, event -> event.kind() == TrainingEvent.Kind.DURABLE_WRITTEN);
    }
    for (int rank = 1; rank < 3; rank++) {
      agents.get(rank).close();
      ranks.get(rank).close();
    }
    agents.add(agent(tracker.address(), "process 3", "a"));
    joins(agents.get(3), 1, 1);
    Communicator left = ranks.get(0);
    RejoinException failure = assertThrows(RejoinException.class, left::barrier);
    assertEquals(RejoinException.Code.ROLLED_BACK, failure.code(), failure.getMessage());
    return left;
  }

  @Test
  void a_rank_that_joins_again_can_be_cancelled() throws Exception {
    List<Agent> agents = new ArrayList<>();
    try (Tracker tracker = tracker(3);
        Communicator left = isSentBack(tracker, agents)) {
      Future<?> waiting = threads.submit(() -> left.joinAgain(this::cancelled));
      event(tracker, event -> joined(event, 0, 1));
      reason.set("Flink cancels the job");
      assertTrue(isCancelled(waiting).contains("Flink cancels the job"));
    }
    agents.forEach(Agent::close);
  }

  @Test
  void closing_a_communicator_that_joins_again_ends_that_wait() throws Exception {
    List<Agent> agents = new ArrayList<>();
    try (Tracker tracker = tracker(3)) {
      Communicator left = isSentBack(tracker, agents);
      Future<?> waiting = threads.submit(() -> left.joinAgain());
      event(tracker, event -> joined(event, 0, 1));
      left.close();
      assertTrue(isCancelled(waiting).contains("the communicator was closed"));
    }
    agents.forEach(Agent::close);
  }
}
