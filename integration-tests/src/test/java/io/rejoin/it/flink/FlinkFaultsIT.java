package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The table of faults, on one cluster: the model is that of the undisturbed training. */
@DisplayName("whatever strikes a TaskManager, the model is the same, byte for byte")
class FlinkFaultsIT {
  private static final long SEED = Long.getLong("rejoin.it.seed", System.nanoTime());

  private static String undisturbed;

  @TestFactory
  Stream<DynamicTest> every_fault_is_survived() {
    System.out.println("random faults: repeat with -Drejoin.it.seed=" + SEED);
    return FlinkFault.all(new Random(SEED)).stream()
        .filter(one -> one.name().contains(System.getProperty("rejoin.it.only", "")))
        .map(one -> DynamicTest.dynamicTest(one.name(), () -> check(one)));
  }

  /** Trains under a fault; the model must be that of the undisturbed training. */
  static void check(FlinkFault fault) throws Exception {
    FlinkCluster cluster = Clusters.shared();
    if (undisturbed == null) {
      FlinkRun calm = new FlinkRun(cluster, "undisturbed");
      undisturbed = calm.train().digest();
      assertEquals(List.of(0, 0, 0), calm.job().attempts(TrainingJob.TRAINER));
      Clusters.shared();
    }
    FlinkRun run = new FlinkRun(cluster, fault.name());
    fault.prepare().accept(run);
    assertEquals(undisturbed, run.train().digest(), "the digest of the undisturbed model");
    assertEquals(fault.attempts(), run.job().attempts(TrainingJob.TRAINER), "attempts");
    assertEquals(1, run.gangs(), "survivors go on in the gang that they were in");
  }
}
