package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Under high availability, with a real ZooKeeper server, another JobManager goes on. */
@DisplayName("a JobManager is killed under high availability, and the model is the same")
class FlinkHighAvailabilityIT {
  private static FlinkCluster cluster;

  @BeforeAll
  static void start() {
    cluster = FlinkCluster.named("ha").taskManagers(4).replacing().highlyAvailable().start();
  }

  @AfterAll
  static void close() {
    cluster.close();
  }

  @Test
  @DisplayName("the JobManager is killed, and all ranks go on from Flink's checkpoint")
  void the_job_manager() throws Exception {
    FlinkRun run = new FlinkRun(cluster, "JobManager killed");
    String digest = run.halfWay(() -> replaceJobManager(run)).train().digest();
    assertEquals(FlinkFaultsIT.undisturbed(), digest);
    assertEquals(1, run.gangs(), "gangs of the new JobManager");
  }

  @Test
  @DisplayName("a TaskManager is killed with it, and another one after it")
  void with_task_managers() throws Exception {
    FlinkRun run = new FlinkRun(cluster, "JobManager and TaskManagers killed");
    run.faults("2:25:BEFORE:KILL")
        .halfWay(
            () -> {
              run.awaitMoreCheckpoints(1);
              run.processOf(1).signal("KILL");
              replaceJobManager(run);
            });
    assertEquals(FlinkFaultsIT.undisturbed(), run.train().digest());
    assertEquals(List.of(0, 0, 1), run.job().attempts(TrainingJob.TRAINER), "of the new one");
    assertEquals(1, run.gangs(), "gangs of the new JobManager");
  }

  private static void replaceJobManager(FlinkRun run) throws Exception {
    run.awaitMoreCheckpoints(1);
    cluster.jobManager().signal("KILL");
    cluster.startJobManager();
    run.awaitCoordinator("gang 1 begins with version [1-9]");
  }
}
