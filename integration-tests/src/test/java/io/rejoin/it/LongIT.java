package io.rejoin.it;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * Every fault with every kind of training, again and again, then random kills for as long as asked.
 * Not in the timed tests.
 */
@DisplayName("the cross-product of faults and trainings, and random kills")
@EnabledIfSystemProperty(
    named = "rejoin.it.long",
    matches = "true",
    disabledReason = "takes hours: make test-long")
class LongIT {
  private static final int REPETITIONS = Integer.getInteger("rejoin.it.repetitions", 1);
  private static final Duration RANDOM_KILLS =
      Duration.ofMinutes(Long.getLong("rejoin.it.minutes", 10));

  /** Recipes to be tried, by name; all by default. The whole takes an hour or more. */
  private static final List<String> RECIPES =
      List.of(System.getProperty("rejoin.it.recipes", "").split(","));

  private static Stream<Recipe> recipes() {
    return Stream.of(Recipe.values())
        .filter(recipe -> RECIPES.contains("") || RECIPES.contains(recipe.name()));
  }

  @TestFactory
  Stream<DynamicTest> every_fault_is_survived_by_every_kind_of_training() {
    long seed = FaultsIT.SEED;
    System.out.println("random faults: repeat with -Drejoin.it.seed=" + seed);
    return Stream.iterate(0, n -> n + 1)
        .limit(REPETITIONS)
        .flatMap(
            repetition ->
                recipes()
                    .flatMap(
                        recipe ->
                            FaultCase.single(new Random(seed + repetition)).stream()
                                .map(
                                    one ->
                                        DynamicTest.dynamicTest(
                                            recipe
                                                + ": "
                                                + one.name()
                                                + " ("
                                                + (repetition + 1)
                                                + ")",
                                            () ->
                                                FaultsIT.check(
                                                    Sessions.Shape.SINGLE, recipe, one)))));
  }

  @TestFactory
  Stream<DynamicTest> random_kills_are_survived_for_as_long_as_asked() {
    Random random = new Random(FaultsIT.SEED);
    long end = System.nanoTime() + RANDOM_KILLS.toNanos();
    return Stream.generate(() -> random)
        .takeWhile(more -> System.nanoTime() < end)
        .map(
            more -> {
              Recipe recipe = Recipe.values()[more.nextInt(Recipe.values().length)];
              FaultCase kills = FaultCase.randomKills(more);
              return DynamicTest.dynamicTest(
                  recipe + ": " + kills.name(),
                  () -> FaultsIT.check(Sessions.Shape.SINGLE, recipe, kills));
            });
  }
}
