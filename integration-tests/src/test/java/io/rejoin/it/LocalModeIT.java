package io.rejoin.it;

import java.util.List;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * All ranks are threads of one JVM: a task that fails rejoins in the same process, from its agent's
 * memory.
 */
@DisplayName("in local[4,4] a rank that throws rejoins")
class LocalModeIT {
  @TestFactory
  Stream<DynamicTest> a_rank_that_throws_rejoins_in_the_same_process() {
    return cases().stream()
        .map(one -> DynamicTest.dynamicTest(one.name(), () -> FaultsIT.check(Recipe.BINARY, one)));
  }

  static List<FaultCase> cases() {
    return List.of(
        local(
            "a worker throws in a round",
            1,
            (run, calm) ->
                run.fault(Fault.of(1).version(calm.middle(), calm.inside()).throwError())),
        local(
            "a worker throws in boot",
            1,
            (run, calm) -> run.fault(Fault.of(2).boot(1_000).throwError())),
        local(
            "rank 0 throws in the last round",
            1,
            (run, calm) -> run.fault(Fault.of(0).version(calm.last(), calm.inside()).throwError())),
        local(
            "two ranks throw in the same round",
            2,
            (run, calm) ->
                run.fault(Fault.of(0).version(calm.middle(), calm.inside()).throwError())
                    .fault(Fault.of(2).version(calm.middle(), calm.inside()).throwError())));
  }

  private static FaultCase local(String name, int restarts, BiConsumer<RejoinRun, Calm> prepare) {
    return new FaultCase(name, 3, restarts, Sessions.Shape.LOCAL, prepare);
  }
}
