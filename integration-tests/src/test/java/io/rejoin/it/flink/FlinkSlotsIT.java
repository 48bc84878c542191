package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** TaskManagers with several slots: ranks of a job share a process, and jobs come after jobs. */
@DisplayName("in a TaskManager with several slots")
class FlinkSlotsIT {
  private static final int JOBS = 5;

  @Test
  @DisplayName("two ranks die with their TaskManager, and come back in another one")
  void two_ranks_of_one_process() throws Exception {
    long[] lengths = {2000, 1900, 1700, 1800};
    try (FlinkCluster cluster =
        FlinkCluster.named("pairs").taskManagers(2).slots(2).replacing().start()) {
      String calm = new FlinkRun(cluster, "undisturbed", lengths).ranks(4).train().digest();
      cluster.awaitTaskManagers(2);
      FlinkRun run = new FlinkRun(cluster, "killed", lengths).ranks(4).faults("1:25:BEFORE:KILL");
      List<Integer> attempts = new ArrayList<>();
      run.halfWay(
          () -> {
            run.awaitMoreCheckpoints(1);
            for (int rank = 0; rank < lengths.length; rank++) {
              attempts.add(run.processOf(rank) == run.processOf(1) ? 1 : 0);
            }
          });
      assertEquals(calm, run.train().digest());
      assertEquals(2, Collections.frequency(attempts, 1), "ranks in one process");
      assertEquals(attempts, run.job().attempts(TrainingJob.TRAINER), "attempts");
      assertEquals(1, run.gangs(), "survivors go on in the gang that they were in");
    }
  }

  /** One job after the other. */
  private interface Jobs {
    void run(FlinkCluster cluster, int number) throws Exception;
  }

  @Test
  @DisplayName("five jobs in a row leave nothing behind")
  void jobs_in_a_row() throws Exception {
    inARow(
        "in-a-row",
        (cluster, number) ->
            assertEquals(
                FlinkFaultsIT.undisturbed(),
                new FlinkRun(cluster, "job " + number).train().digest()));
  }

  @Test
  @DisplayName("five jobs of XGBoost in a row, whose classes Flink keeps, leave nothing behind")
  void xgboost_in_a_row() throws Exception {
    inARow(
        "xgboost-in-a-row",
        (cluster, number) ->
            assertArrayEquals(
                XgboostRun.undisturbed(false), new XgboostRun(cluster, "job-" + number).model()));
  }

  private static void inARow(String name, Jobs jobs) throws Exception {
    try (FlinkCluster cluster = FlinkCluster.named(name).taskManagers(1).slots(3).start()) {
      List<FlinkProcess> processes = List.of(cluster.jobManager(), cluster.taskManagers().get(0));
      List<Footprint> first = new ArrayList<>();
      for (int number = 1; number <= JOBS; number++) {
        jobs.run(cluster, number);
        cluster.awaitTaskManagers(1);
        for (int i = 0; i < processes.size(); i++) {
          Footprint left = leftIn(processes.get(i));
          System.out.println(processes.get(i).name() + " after job " + number + ": " + left);
          if (number == 1) {
            first.add(left);
          }
          assertTrue(left.descriptors() <= first.get(i).descriptors() + 5, first + ", " + left);
          assertTrue(left.metaspaceKb() <= first.get(i).metaspaceKb() + 2000, first + ", " + left);
        }
      }
    }
  }

  /**
   * What a process holds when all that is over is gone. Two copies of the native library may stay:
   * that which XGBoost calls into, and that of the last job, whose class loader Flink may hold.
   */
  private static Footprint leftIn(FlinkProcess process) throws Exception {
    Footprint[] seen = {null};
    try {
      return Waiting.until(
          process + " holds two libraries and one class loader at most, and no thread of Rejoin's",
          Duration.ofSeconds(30),
          () -> {
            seen[0] = Footprint.of(process);
            boolean isAll =
                seen[0].libraries() <= 2 && seen[0].loaders() <= 1 && seen[0].threads() == 0;
            return isAll ? seen[0] : null;
          });
    } catch (AssertionError late) {
      throw new AssertionError(late.getMessage() + "; at the end " + seen[0], late);
    }
  }
}
