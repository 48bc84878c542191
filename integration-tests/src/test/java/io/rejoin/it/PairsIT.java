package io.rejoin.it;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Two executors of two slots: one death takes up to two ranks. */
@DisplayName("executors that hold two ranks each")
class PairsIT {
  @TestFactory
  Stream<DynamicTest> the_death_of_an_executor_takes_two_ranks_and_both_rejoin() {
    return cases().stream()
        .map(one -> DynamicTest.dynamicTest(one.name(), () -> FaultsIT.check(Recipe.BINARY, one)));
  }

  static List<FaultCase> cases() {
    return List.of(
        new FaultCase(
            "an executor with two of four ranks is killed in a round",
            4,
            2,
            Sessions.Shape.PAIRS,
            (run, calm) -> run.fault(Fault.of(1).version(calm.middle(), calm.inside()).kill())),
        new FaultCase(
            "an executor with two of four ranks is killed in boot",
            4,
            2,
            Sessions.Shape.PAIRS,
            (run, calm) -> run.fault(Fault.of(0).boot(2_000).kill())));
  }
}
