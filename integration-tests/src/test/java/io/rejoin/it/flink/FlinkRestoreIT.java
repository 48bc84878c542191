package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** All ranks begin again from what Flink has kept. */
@DisplayName("who begins from a checkpoint or savepoint gets the model of the undisturbed training")
class FlinkRestoreIT {
  @Test
  @DisplayName("a job is stopped with a savepoint, and submitted again from it")
  void again_from_a_savepoint() throws Exception {
    String undisturbed = FlinkFaultsIT.undisturbed();
    FlinkRun first = new FlinkRun(Clusters.shared(), "before the savepoint");
    String savepoint = stopped(first, () -> first.job().awaitCheckpoints(1, FlinkRun.LIMIT));
    FlinkRun second = new FlinkRun(Clusters.shared(), "from the savepoint");
    assertEquals(undisturbed, second.from(savepoint).train().digest());
    second.awaitCoordinator("gang 1 begins with version [1-9]");
  }

  @Test
  @DisplayName(
      "a job is stopped with a savepoint while a rank is full of rows: one's input is late")
  void stopped_while_a_rank_is_full() throws Exception {
    // A rank takes four rows more than are in the model, and then its input waits. Rank 0 has given
    // two, so rank 1 waits with its row 5: for rank 0, whose input comes no further.
    FlinkRun first = rowByRow("stopped while full").heldBefore(0, 2).faults("1:5:ROW:TELL");
    String savepoint = stopped(first, first::awaitFired);
    rowByRow("from the savepoint of a full rank").from(savepoint).train();
  }

  /**
   * The savepoint is one that {@link #stopped_while_a_rank_is_full} left when the formats of
   * Rejoin's state had the numbers that are in its name. Who changes a format keeps it, and adds
   * one of the new format.
   */
  @Test
  @DisplayName("a job goes on from a savepoint that an earlier build of Rejoin has made")
  void from_a_savepoint_of_an_earlier_build() throws Exception {
    Path kept = Path.of("integration-tests/src/test/savepoints/rank-2-model-1").toAbsolutePath();
    FlinkRun run = rowByRow("from the savepoint of an earlier build");
    run.from(kept.toUri().toString()).train();
    run.awaitCoordinator("gang 1 begins with version [1-9]");
  }

  private static FlinkRun rowByRow(String name) throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), name, new long[] {60, 50, 40}).halfWay(() -> {});
    return run.setting("rejoin.batch.rows", "1").setting("rejoin.buffer.batches", "4");
  }

  /** Where the savepoint is that stops a job after this step. */
  private static String stopped(FlinkRun run, FlinkRun.Step step) throws Exception {
    String[] savepoint = {null};
    run.whileItRuns(
        () -> {
          step.run();
          savepoint[0] = run.stopWithSavepoint();
        });
    return savepoint[0];
  }

  @Test
  @DisplayName(
      "a job by Rejoin.source loses a TaskManager, is stopped with a savepoint, and goes on with"
          + " fewer ranks, and with more: each row is in the model once")
  void at_another_parallelism() throws Exception {
    // More splits than ranks; at the gate rank 0 has read twice as many rows as rank 2, so that
    // rows are in the savepoint that no version has taken.
    long[] lengths = {1500, 1400, 1300, 1200, 1100};
    FlinkRun first = bySplit("splits of three ranks", lengths).faults("1:10:BEFORE:KILL");
    String savepoint =
        stopped(
            first,
            () -> {
              first.awaitCoordinator("rank 1 works with the others again");
              first.awaitMoreCheckpoints(1);
              assertEquals(List.of(0, 1, 0), first.job().attempts(TrainingJob.TRAINER));
            });
    FlinkRun second = bySplit("splits of two ranks", lengths).ranks(2).from(savepoint);
    String ofTwo =
        stopped(
            second,
            () -> {
              second.awaitMoreCheckpoints(1);
              assertEquals(List.of(0, 0), second.job().attempts(TrainingJob.TRAINER));
            });
    second.awaitCoordinator("gang 1 begins with version [1-9]");
    FlinkRun third = bySplit("splits of four ranks", lengths).ranks(4);
    third.from(ofTwo).train();
    assertEquals(List.of(0, 0, 0, 0), third.job().attempts(TrainingJob.TRAINER));
    third.awaitCoordinator("gang 1 begins with version [1-9]");
  }

  private static FlinkRun bySplit(String name, long[] lengths) throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), name, lengths).bySplit();
    // Rows that wait for those of another rank must not hold up a checkpoint.
    return run.setting("rejoin.buffer.batches", "100");
  }

  @Test
  @DisplayName("a whole cluster dies, and another one goes on from its last checkpoint")
  void a_new_cluster_from_a_checkpoint() throws Exception {
    String undisturbed = FlinkFaultsIT.undisturbed();
    String[] checkpoint = {null};
    try (FlinkCluster dying = FlinkCluster.named("dying").taskManagers(3).start()) {
      FlinkRun first = new FlinkRun(dying, "before the death");
      first.whileItRuns(
          () -> {
            first.job().awaitCheckpoints(2, FlinkRun.LIMIT);
            dying.lose();
            checkpoint[0] = first.newestCheckpoint();
          });
      FlinkRun second = new FlinkRun(Clusters.shared(), "after the death");
      assertEquals(undisturbed, second.from(checkpoint[0]).train().digest());
      assertEquals(List.of(0, 0, 0), second.job().attempts(TrainingJob.TRAINER));
    }
  }
}
