package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Jobs that Flink is told to stop at the end of their inputs ({@code --drain}), and can't, when all
 * is trained that was read. Ranks are in other tasks than their sources: so they come to the
 * savepoint behind the end of their inputs.
 */
@DisplayName("a job goes on whose drain has failed when all that it had read was trained")
class FlinkDrainIT {
  private static final List<Integer> ALL_CAME_BACK = List.of(1, 1, 1);

  private static FlinkCluster cluster(String name) {
    return FlinkCluster.named(name).taskManagers(2).slots(3).jarsInLib().start();
  }

  @Test
  @DisplayName("and each row is in the model once")
  void rows() throws Exception {
    try (FlinkCluster cluster = cluster("drained")) {
      FlinkRun run = new FlinkRun(cluster, "drained in vain").failingAtItsEnd();
      run.setting("rejoin.slot-sharing-group", "ranks");
      run.halfWay(
          () -> {
            run.job().awaitCheckpoints(1, FlinkRun.LIMIT);
            run.drainInVain();
          });
      run.train();
      assertEquals(ALL_CAME_BACK, run.job().attempts(TrainingJob.TRAINER));
    }
  }

  @Test
  @DisplayName("and XGBoost trains on all rows, not on those that were read by then")
  void xgboost() throws Exception {
    try (FlinkCluster cluster = cluster("xgboost-drained")) {
      XgboostRun run =
          new XgboostRun(cluster, "xgboost-drained")
              .failingAtItsEnd()
              .setting("rejoin.slot-sharing-group", "ranks")
              .halfWay(
                  half -> {
                    half.awaitOneMoreCheckpoint();
                    half.drainInVain();
                  });
      assertArrayEquals(XgboostRun.undisturbed(false), run.model());
      assertEquals(ALL_CAME_BACK, run.attempts());
    }
  }
}
