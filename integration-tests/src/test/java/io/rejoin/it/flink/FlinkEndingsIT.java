package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Jobs that end otherwise than by the end of their input. */
@DisplayName("however a job ends, its slots are free soon, and its TaskManagers live")
class FlinkEndingsIT {
  private static final Duration SOON = Duration.ofSeconds(5);

  @Test
  @DisplayName("a job is stopped with a savepoint when one input has ended and others go on")
  void stopped_after_the_end_of_an_input() throws Exception {
    FlinkCluster cluster = Clusters.shared();
    FlinkRun run = new FlinkRun(cluster, "stopped", new long[] {500, 2000, 2000});
    run.whileItRuns(
        () -> {
          run.awaitCoordinator("gang 1 begins");
          run.job().awaitCheckpoints(5, FlinkRun.LIMIT);
          run.stopWithSavepoint();
        });
  }

  @Test
  @DisplayName(
      "by Rejoin.source a job is stopped when a reader has had its last row, and goes on from the"
          + " savepoint: each row is in the model once")
  void stopped_after_the_end_of_a_reader() throws Exception {
    String[] savepoint = {null};
    FlinkRun first = withAReaderThatEnds("a reader has ended");
    first.whileItRuns(
        () -> {
          first.awaitCoordinator("gang 1 begins");
          first.job().awaitCheckpoints(5, FlinkRun.LIMIT);
          savepoint[0] = first.stopWithSavepoint();
        });
    withAReaderThatEnds("from where a reader had ended").from(savepoint[0]).train();
  }

  private static FlinkRun withAReaderThatEnds(String name) throws Exception {
    return new FlinkRun(Clusters.shared(), name, new long[] {500, 2000, 2000}).bySplit();
  }

  @Test
  @DisplayName("a job is cancelled while ranks wait in an allreduce for one that doesn't come")
  void cancelled_in_a_collective() throws Exception {
    FlinkCluster cluster = Clusters.shared();
    FlinkRun run = new FlinkRun(cluster, "cancelled").faults("1:10:BEFORE:HOLD");
    run.whileItRuns(
        () -> {
          run.awaitFired();
          cancel(run);
        });
  }

  @Test
  @DisplayName("a job is cancelled while ranks wait for others that have no slots")
  void cancelled_without_enough_slots() throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), "waiting", new long[6]).ranks(6);
    run.whileItRuns(
        () -> {
          run.awaitSubtasks(Clusters.TASK_MANAGERS);
          cancel(run);
        });
  }

  private static void cancel(FlinkRun run) throws Exception {
    List<Long> processes = pids(run);
    run.job().cancel();
    run.cluster().awaitTaskManagers(Clusters.TASK_MANAGERS, SOON);
    assertEquals("CANCELED", run.job().awaitEnd(FlinkRun.LIMIT));
    assertEquals(processes, pids(run), "TaskManagers live on");
  }

  private static List<Long> pids(FlinkRun run) {
    return run.cluster().taskManagers().stream()
        .map(FlinkProcess::pid)
        .collect(Collectors.toList());
  }

  @Test
  @DisplayName("a job with too few slots fails, and says which ranks were missing")
  void too_few_slots() throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), "missing", new long[6]).ranks(6);
    run.setting("rejoin.members.timeout", "3s").setting("restart-strategy.type", "none");
    String why = run.halfWay(() -> {}).trainInVain();
    run.awaitCoordinator("WARN .*GangCoordinator.* of 6 have not come");
    assertTrue(why.contains("MEMBERS_MISSING: ranks ["), why);
    assertTrue(why.contains("of 6 have not come"), why);
  }

  @Test
  @DisplayName("a source that gives its rows in another order the next time ends the job: MISMATCH")
  void a_source_that_breaks_its_rule() throws Exception {
    FlinkCluster cluster = Clusters.shared();
    FlinkRun run = new FlinkRun(cluster, "another order", new long[] {2000, 2000, 2000});
    // A checkpoint after the gate might have all rows that are in the model: the rest may come in
    // any order. So there is one before, and rows from the gate to the kill are read again.
    run.setting("execution.checkpointing.interval", "1 h").halfWay(() -> checkpoint(run));
    endsAsMismatch(run, endsInVain(run.withBadSource().faults("1:25:BEFORE:KILL")));
  }

  private static void checkpoint(FlinkRun run) throws Exception {
    run.job().awaitRunning(FlinkRun.LIMIT);
    run.job().checkpoint(FlinkRun.LIMIT);
  }

  @Test
  @DisplayName("a source that gives a dead reader's splits to another one ends the job: MISMATCH")
  void a_source_that_breaks_the_rule_of_owners() throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), "another owner");
    endsAsMismatch(run, endsAsSplitsMove(run));
  }

  private static void endsAsMismatch(FlinkRun run, String why) throws Exception {
    assertTrue(why.contains("MISMATCH"), why);
    assertEquals(List.of(0, 1, 0), run.job().attempts(TrainingJob.TRAINER), "no further attempt");
  }

  @Test
  @DisplayName("the same without an end of its rows, where a batch is waited for: TIMED_OUT")
  void a_source_without_end_that_breaks_the_rule_of_owners() throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), "another owner, no end").withoutEnd();
    run.setting("rejoin.call.timeout", "4 s").setting("restart-strategy.fixed-delay.attempts", "2");
    String why = endsAsSplitsMove(run);
    assertTrue(why.contains("TIMED_OUT"), why);
  }

  @Test
  @DisplayName("and also where the dead reader was given its splits after Flink's last checkpoint")
  void a_source_that_moves_what_it_gave_since_a_checkpoint() throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), "another owner, restored").withoutEnd();
    run.setting("rejoin.call.timeout", "4 s").setting("restart-strategy.fixed-delay.attempts", "2");
    run.setting("execution.checkpointing.interval", "1 h")
        .withSplitsThatMove()
        .withSplitsThatAreGivenLate()
        .faults("0:" + FlinkRun.HALF_WAY + ":DOWNSTREAM:TELL")
        .halfWay(
            () -> {
              checkpoint(run);
              run.giveSplits();
              run.awaitFired();
              run.processOf(1).signal("KILL");
            });
    String why = endsInVain(run);
    assertTrue(why.contains("TIMED_OUT"), why);
  }

  private static String endsAsSplitsMove(FlinkRun run) throws Exception {
    // From a checkpoint a reader would have the splits that it has now.
    run.withSplitsThatMove()
        .withoutCheckpoints()
        .faults("0:" + FlinkRun.HALF_WAY + ":DOWNSTREAM:TELL")
        .halfWay(
            () -> {
              // All rows until the gate are in the model, and no rank has given any since.
              run.awaitFired();
              run.processOf(1).signal("KILL");
            });
    return endsInVain(run);
  }

  private static String endsInVain(FlinkRun run) throws Exception {
    String why = run.trainInVain();
    assertFalse(Files.exists(run.model()), "a model came out");
    return why;
  }
}
