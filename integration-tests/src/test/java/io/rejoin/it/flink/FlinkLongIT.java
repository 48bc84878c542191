package io.rejoin.it.flink;

import io.rejoin.it.Progress;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The whole table of faults. */
@DisplayName("the long run in Flink")
class FlinkLongIT {
  @TestFactory
  Stream<DynamicTest> every_fault_is_survived() {
    List<FlinkFault> faults = FlinkFault.all(new Random(FlinkFaultsIT.SEED));
    Progress progress = new Progress("faults in Flink", faults.size());
    return faults.stream()
        .filter(one -> one.name().contains(System.getProperty("rejoin.it.only", "")))
        .map(one -> progress.test(one.name(), () -> FlinkFaultsIT.check(one)));
  }
}
