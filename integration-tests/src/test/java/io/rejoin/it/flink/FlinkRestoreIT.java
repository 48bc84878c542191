package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** All ranks begin again from what Flink has kept. */
@DisplayName("who begins from a checkpoint or savepoint gets the model of the undisturbed training")
class FlinkRestoreIT {
  private static final String FROM = "execution.state-recovery.path";

  @Test
  @DisplayName("a job is stopped with a savepoint, and submitted again from it")
  void again_from_a_savepoint() throws Exception {
    FlinkCluster cluster = Clusters.shared();
    String undisturbed = FlinkFaultsIT.undisturbed();
    FlinkRun first = new FlinkRun(Clusters.shared(), "before the savepoint");
    String[] savepoint = {null};
    first.whileItRuns(
        () -> {
          first.job().awaitCheckpoints(1, FlinkRun.LIMIT);
          savepoint[0] =
              first.job().stopWithSavepoint(cluster.work().folder("savepoints"), FlinkRun.LIMIT);
          assertEquals("FINISHED", first.job().awaitEnd(FlinkRun.LIMIT));
        });
    FlinkRun second = new FlinkRun(Clusters.shared(), "from the savepoint");
    assertEquals(undisturbed, second.setting(FROM, savepoint[0]).train().digest());
    second.awaitCoordinator("gang 1 begins with version [1-9]");
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
      assertEquals(undisturbed, second.setting(FROM, checkpoint[0]).train().digest());
      assertEquals(List.of(0, 0, 0), second.job().attempts(TrainingJob.TRAINER));
    }
  }
}
