package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The main part of the table of faults, on one cluster. */
@DisplayName("whatever fault meets a TaskManager, the model is the same, byte for byte")
class FlinkFaultsIT {
  static final long SEED = Long.getLong("rejoin.it.seed", System.nanoTime());

  private static String undisturbed;

  @TestFactory
  Stream<DynamicTest> the_main_faults_are_survived() {
    System.out.println("random faults: repeat with -Drejoin.it.seed=" + SEED);
    return FlinkFault.main(new Random(SEED)).stream()
        .filter(one -> one.name().contains(System.getProperty("rejoin.it.only", "")))
        .map(one -> DynamicTest.dynamicTest(one.name(), () -> check(one)));
  }

  /** The digest of the undisturbed model. */
  static String undisturbed() throws Exception {
    if (undisturbed == null) {
      undisturbed = new FlinkRun(Clusters.shared(), "undisturbed").train().digest();
    }
    return undisturbed;
  }

  /** Trains under a fault; the model must be that of the undisturbed training. */
  static void check(FlinkFault fault) throws Exception {
    String calm = undisturbed();
    FlinkRun run = new FlinkRun(Clusters.shared(), fault.name());
    fault.prepare().accept(run);
    String digest = run.train().digest();
    if (fault.isExact()) {
      assertEquals(calm, digest, "the digest of the undisturbed model");
    }
    assertEquals(fault.attempts(), run.job().attempts(TrainingJob.TRAINER), "attempts");
    assertEquals(fault.gangs(), run.gangs(), "survivors go on in the gang that they were in");
  }
}
