package io.rejoin.it;

import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * The main faults, for the pairs of versions beside the default one: three of the five; LongIT has
 * all, and more.
 */
@DisplayName("the main faults are survived")
class MainFaultsIT {
  @TestFactory
  Stream<DynamicTest> the_main_faults_are_survived() {
    return FaultCase.main().stream()
        .limit(3)
        .map(one -> DynamicTest.dynamicTest(one.name(), () -> FaultsIT.check(Recipe.BINARY, one)));
  }
}
