package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Agent;
import io.rejoin.Communicator;
import io.rejoin.GangTask;
import io.rejoin.RejoinException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.metrics.groups.OperatorCoordinatorMetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A coordinator with a real tracker and two ranks, and Flink's calls by hand. */
@Timeout(120)
class GangCoordinatorTest {
  private static final int WORLD = 2;
  private static final long LIMIT_MILLIS = 60_000;
  private static final long DRAIN = 7;
  private static final byte[] RESULT = {1, 2, 3};
  private static final Communicator.Limits LIMITS =
      new Communicator.Limits(LIMIT_MILLIS, LIMIT_MILLIS, LIMIT_MILLIS);

  private final GangCoordinator coordinator =
      new GangCoordinator(
          "a trainer",
          context(),
          FlinkSettings.of(Map.of("rejoin.tracker.host", "127.0.0.1"), true),
          true,
          checkpoint -> checkpoint == DRAIN);

  private static OperatorCoordinator.Context context() {
    OperatorCoordinatorMetricGroup metrics =
        answering(
            OperatorCoordinatorMetricGroup.class,
            Map.of("addGroup", new UnregisteredMetricsGroup()));
    return answering(
        OperatorCoordinator.Context.class,
        Map.of("currentParallelism", WORLD, "metricGroup", metrics));
  }

  /** Answers calls by their names. */
  private static <I> I answering(Class<I> kind, Map<String, ?> answers) {
    return kind.cast(
        Proxy.newProxyInstance(
            kind.getClassLoader(),
            new Class<?>[] {kind},
            (proxy, method, arguments) -> answers.get(method.getName())));
  }

  @AfterEach
  void close() {
    coordinator.close();
  }

  private Answer ask(CoordinationRequest request) throws Exception {
    return Answer.unwrapped(
        coordinator.handleCoordinationRequest(request).get(), getClass().getClassLoader());
  }

  private Answer ask(int rank, int attempt) throws Exception {
    return ask(new Offer(rank, attempt, 0, "", 0, ""));
  }

  private byte[] checkpoint(long id) throws Exception {
    CompletableFuture<byte[]> state = new CompletableFuture<>();
    coordinator.checkpointCoordinator(id, state);
    return state.get();
  }

  private void fail(int rank, int attempt) {
    coordinator.executionAttemptFailed(rank, attempt, new Exception("a test lets it fail"));
  }

  /** Both ranks' first attempts train to the end, and hear that all is over. */
  private void trainToTheEnd(Path folder) throws Exception {
    for (int rank = 0; rank < WORLD; rank++) {
      coordinator.executionAttemptReady(rank, 0, null);
    }
    assertEquals(Answer.Kind.WAIT, ask(0, 0).kind);
    Answer gang = ask(1, 0);
    assertEquals(Answer.Kind.JOIN, gang.kind);
    CompletableFuture<?>[] ranks = new CompletableFuture<?>[WORLD];
    for (int rank = 0; rank < WORLD; rank++) {
      ranks[rank] = ends(gang.task, rank, folder);
    }
    CompletableFuture.allOf(ranks).get(LIMIT_MILLIS, TimeUnit.MILLISECONDS);
    long limit = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LIMIT_MILLIS);
    while (ask(0, 0).kind != Answer.Kind.OVER) {
      assertTrue(System.nanoTime() < limit, "the coordinator hears of the end");
      Thread.onSpinWait();
    }
    assertArrayEquals(RESULT, ask(1, 0).result);
  }

  private static CompletableFuture<Void> ends(GangTask task, int rank, Path folder) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                task.run(new Here(folder), Agent.class, Agent::open, agent -> end(agent, rank));
                done.complete(null);
              } catch (Throwable e) {
                done.completeExceptionally(e);
              }
            });
    thread.setDaemon(true);
    thread.start();
    return done;
  }

  private static void end(Agent agent, int rank) {
    try (Communicator ranks = agent.join(rank, 0, 0, "a test", LIMITS).orElseThrow()) {
      ranks.load();
      ranks.finish(RESULT);
    }
  }

  /** This process. */
  private static final class Here implements GangTask.Place {
    private final Path folder;

    Here(Path folder) {
      this.folder = folder;
    }

    @Override
    public String executor() {
      return "a test";
    }

    @Override
    public String hostname() {
      return "127.0.0.1";
    }

    @Override
    public String spillDirectory() {
      return folder.toString();
    }

    @Override
    public boolean firstTry() {
      return true;
    }

    @Override
    public Optional<String> cancelled() {
      return Optional.empty();
    }
  }

  @Test
  void a_rank_that_comes_back_after_the_end_hears_that_all_is_over(@TempDir Path folder)
      throws Exception {
    trainToTheEnd(folder);
    fail(0, 0);
    assertEquals(Answer.Kind.OVER, ask(0, 1).kind);
    fail(1, 0);
    assertEquals(Answer.Kind.OVER, ask(1, 1).kind);
    assertArrayEquals(RESULT, checkpoint(DRAIN + 1));
  }

  @Test
  void what_was_trained_at_the_end_of_drained_inputs_is_forgotten_when_the_savepoint_fails(
      @TempDir Path folder) throws Exception {
    assertEquals(0, checkpoint(DRAIN).length);
    trainToTheEnd(folder);
    fail(0, 0);
    // Flink is about to fail it, too.
    Answer doomed = ask(1, 0);
    assertEquals(Answer.Kind.FAIL, doomed.kind);
    assertEquals(RejoinException.Code.FENCED, doomed.code);
    coordinator.executionAttemptReady(0, 1, null);
    assertEquals(Answer.Kind.WAIT, ask(0, 1).kind);
    fail(1, 0);
    coordinator.executionAttemptReady(1, 1, null);
    Answer next = ask(1, 1);
    assertEquals(Answer.Kind.JOIN, next.kind);
    assertEquals(2, next.gang);
    assertEquals(0, checkpoint(DRAIN + 1).length);
  }

  @Test
  void what_was_trained_at_the_end_of_drained_inputs_is_in_no_checkpoint(@TempDir Path folder)
      throws Exception {
    checkpoint(DRAIN);
    trainToTheEnd(folder);
    assertEquals(0, checkpoint(DRAIN + 1).length);
    fail(1, 0);
    assertEquals(Answer.Kind.WAIT, ask(1, 1).kind);
  }
}
