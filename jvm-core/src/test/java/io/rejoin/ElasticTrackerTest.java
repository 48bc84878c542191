package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A driver's own tracker of a job whose world may change. */
class ElasticTrackerTest {
  private static final int WORLD = 3;

  /** Reached only when something is broken. */
  private static final long LIMIT_MILLIS = 30_000;

  private static final Communicator.Limits LIMITS =
      new Communicator.Limits(LIMIT_MILLIS, LIMIT_MILLIS, LIMIT_MILLIS);

  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<Agent> agents = new ArrayList<>();

  @AfterEach
  void stop() {
    agents.forEach(Agent::close);
    threads.shutdownNow();
  }

  private void tasks(Tracker tracker) {
    for (int number = 0; number < WORLD; number++) {
      AgentSettings settings = new AgentSettings(tracker.address());
      String name = "process " + number;
      Agent agent = Agent.open(job, secret, settings.place(name, "127.0.0.1", "localhost"));
      agents.add(agent);
      RankTask own = new RankTask(number, 0, 0, LIMIT_MILLIS, LIMIT_MILLIS);
      threads.submit(() -> agent.asRank(own, Optional::empty, rank -> train(agent, rank)));
    }
  }

  /** Until a call ends with an error. */
  private static void train(Agent agent, RankTask task) {
    Optional<Communicator> joined =
        agent.join(task.rank(), task.stage(), task.task(), "a test", LIMITS);
    try (Communicator ranks = joined.orElseThrow()) {
      ranks.load();
      while (true) {
        ranks.allreduce(new double[] {1}, Reduction.SUM);
        ranks.checkpoint(new byte[] {1});
      }
    }
  }

  /** The first one of this kind from now on. */
  private static TrainingEvent until(Tracker tracker, Kind kind) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LIMIT_MILLIS);
    List<TrainingEvent> others = new ArrayList<>();
    while (System.nanoTime() < deadline) {
      Optional<TrainingEvent> event = tracker.poll(100);
      if (event.isPresent() && event.get().kind() == kind) {
        return event.get();
      }
      event.filter(other -> other.kind() != Kind.VERSION_ENTERED).ifPresent(others::add);
    }
    throw new AssertionError("no " + kind + " but " + others);
  }

  /** Until a rank has made two versions in its world: all have the checkpoint of one then. */
  private static void trains(Tracker tracker) {
    long first = until(tracker, Kind.VERSION_ENTERED).number("version");
    while (until(tracker, Kind.VERSION_ENTERED).number("version") < first + 2) {
      // The next one.
    }
  }

  /** The task's process is gone, and no other comes. */
  private void goes(Tracker tracker, int number) {
    agents.get(number).close();
    tracker.executorGone("process " + number, "its host is gone");
  }

  @Test
  void a_world_that_has_changed_as_often_as_it_may_ends_when_it_would_change_again() {
    // A replacement is waited for until the driver says that none comes.
    Tracker.Settings settings = new Tracker.Settings(WORLD, "127.0.0.1");
    settings.elastic(1, WORLD, 10 * LIMIT_MILLIS, 0).resetLimit(1);
    try (Tracker tracker = Tracker.open(job, secret, settings)) {
      tasks(tracker);
      trains(tracker);
      tracker.taskLeaves(2, 0, 0);
      assertEquals("2", until(tracker, Kind.RESIZED).text("world"));
      trains(tracker);
      tracker.taskLeaves(1, 0, 0);
      goes(tracker, 1);
      until(tracker, Kind.JOB_FAILED);
      RejoinException failure = assertThrows(RejoinException.class, tracker::result);
      assertEquals(RejoinException.Code.UNRECOVERABLE, failure.code());
      String said = failure.getMessage();
      assertTrue(said.contains("changed once, and may not change again"), said);
    }
  }
}
