package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class AgentsTest {
  private static final long LIMIT_SECONDS = 30;

  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final CountDownLatch begun = new CountDownLatch(1);
  private final CountDownLatch answered = new CountDownLatch(1);
  private Tracker tracker;

  @BeforeEach
  void start() {
    tracker = Tracker.open(job, secret, new Tracker.Settings(1, "127.0.0.1"));
  }

  @AfterEach
  void stop() {
    threads.shutdownNow();
    tracker.close();
  }

  private Agent opened() {
    AgentSettings settings = new AgentSettings(tracker.address());
    return Agent.open(job, secret, settings.place("executor", "127.0.0.1", "localhost"));
  }

  private Future<Agent> asks(String executor, Supplier<Agent> opener) {
    return threads.submit(() -> Agents.of(job, executor, Agent.class, opener));
  }

  /** Returns when something answers, as a file system does in the end. */
  private void waitForAnswer() {
    begun.countDown();
    try {
      answered.await(LIMIT_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Test
  void while_one_agent_is_being_opened_others_are_had_and_closed() throws Exception {
    Future<Agent> slow =
        asks(
            "slow",
            () -> {
              waitForAnswer();
              return opened();
            });
    begun.await(LIMIT_SECONDS, TimeUnit.SECONDS);
    Agent other = asks("other", this::opened).get(LIMIT_SECONDS, TimeUnit.SECONDS);
    assertSame(other, Agents.of(job, "other", Agent.class, this::opened));
    other.close();
    assertEquals(1, Agents.closeThoseThatAreOver(), "the one that is being opened is left");
    answered.countDown();
    slow.get(LIMIT_SECONDS, TimeUnit.SECONDS).close();
  }

  @Test
  void what_one_opener_fails_with_is_not_what_another_task_gets() throws Exception {
    Future<Agent> failing =
        asks(
            "one",
            () -> {
              waitForAnswer();
              throw new RejoinException(RejoinException.Code.IO, "no such folder");
            });
    begun.await(LIMIT_SECONDS, TimeUnit.SECONDS);
    Future<Agent> waiting = asks("one", this::opened);
    answered.countDown();
    ExecutionException failed =
        assertThrows(ExecutionException.class, () -> failing.get(LIMIT_SECONDS, TimeUnit.SECONDS));
    assertEquals(RejoinException.Code.IO, ((RejoinException) failed.getCause()).code());
    waiting.get(LIMIT_SECONDS, TimeUnit.SECONDS).close();
  }
}
