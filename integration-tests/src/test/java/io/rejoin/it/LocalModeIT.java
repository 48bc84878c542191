package io.rejoin.it;

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
    return Stream.of(
            new FaultCase(
                "a worker throws in a round",
                3,
                1,
                (run, calm) -> run.fault(Fault.of(1).version(9, 20_000).throwError())),
            new FaultCase(
                "a worker throws in boot",
                3,
                1,
                (run, calm) -> run.fault(Fault.of(2).boot(1_000).throwError())),
            new FaultCase(
                "rank 0 throws in the last round",
                3,
                1,
                (run, calm) ->
                    run.fault(Fault.of(0).version(FaultCase.ROUNDS - 1, 10_000).throwError())),
            new FaultCase(
                "two ranks throw in the same round",
                3,
                2,
                (run, calm) ->
                    run.fault(Fault.of(0).version(9, 20_000).throwError())
                        .fault(Fault.of(2).version(9, 20_000).throwError())))
        .map(
            one ->
                DynamicTest.dynamicTest(
                    one.name(), () -> FaultsIT.check(Sessions.Shape.LOCAL, Recipe.BINARY, one)));
  }
}
