package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Jobs that end otherwise than by the end of their input. */
@DisplayName("however a job ends, it ends, and its TaskManagers live")
class FlinkEndingsIT {
  @Test
  @DisplayName("a job is stopped with a savepoint when one input has ended and others go on")
  void stopped_after_the_end_of_an_input() throws Exception {
    FlinkCluster cluster = Clusters.shared();
    FlinkRun run = new FlinkRun(cluster, "stopped", new long[] {500, 2000, 2000});
    run.whileItRuns(
        () -> {
          run.awaitCoordinator("gang 1 begins");
          run.job().awaitCheckpoints(5, FlinkRun.LIMIT);
          Path folder = cluster.work().folder("savepoints");
          run.job().stopWithSavepoint(folder, FlinkRun.LIMIT);
          assertEquals("FINISHED", run.job().awaitEnd(FlinkRun.LIMIT));
        });
  }
}
