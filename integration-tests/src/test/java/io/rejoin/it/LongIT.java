package io.rejoin.it;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * Faults times trainings times settings, again and again, then random kills for as long as asked.
 * Not in the timed tests.
 *
 * <p>{@code rejoin.it.cells} is how many trainings each fault meets in one repetition: {@code all},
 * or a number, and then more repetitions try the rest.
 */
@DisplayName("the cross-product of faults, trainings and settings, and random kills")
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
@EnabledIfSystemProperty(
    named = "rejoin.it.long",
    matches = "true",
    disabledReason = "takes an hour: make test-long")
class LongIT {
  private static final int REPETITIONS = Integer.getInteger("rejoin.it.repetitions", 1);
  private static final Duration RANDOM_KILLS =
      Duration.ofSeconds(Long.getLong("rejoin.it.seconds", 120));
  private static final String CELLS = System.getProperty("rejoin.it.cells", "all");

  /** Recipes to be tried, by name; all by default. */
  private static final List<String> RECIPES =
      List.of(System.getProperty("rejoin.it.recipes", "").split(","));

  private static final long SEED = FaultsIT.SEED;

  private static List<Recipe> recipes() {
    return Stream.of(Recipe.values())
        .filter(recipe -> RECIPES.contains("") || RECIPES.contains(recipe.name()))
        .collect(Collectors.toList());
  }

  /** One cell of the table, to be tried. */
  private record Cell(Recipe recipe, Variation variation, FaultCase fault, int repetition) {
    String name() {
      String settings = variation == Variation.DEFAULT ? "" : ", " + variation;
      String times = REPETITIONS == 1 ? "" : " (" + (repetition + 1) + ")";
      return recipe + settings + ": " + fault.name() + times;
    }
  }

  private static CoveringDesign design(int columns, int least) {
    int perRow = CELLS.equals("all") ? columns : Math.min(columns, Integer.parseInt(CELLS));
    return new CoveringDesign(columns, Math.max(least, perRow), SEED);
  }

  private static Stream<DynamicTest> tests(String part, List<Cell> cells) {
    System.out.println("[long] random faults: repeat with SEED=" + SEED);
    String only = System.getProperty("rejoin.it.only", "");
    List<Cell> wanted =
        cells.stream()
            .filter(cell -> cell.name().contains(only))
            // Cells of one session's shape are neighbours: another session takes seconds.
            .sorted(
                Comparator.comparing((Cell cell) -> cell.fault().shape())
                    .thenComparing(Cell::repetition)
                    .thenComparing(Cell::recipe))
            .collect(Collectors.toList());
    Progress progress = new Progress(part, wanted.size());
    return wanted.stream()
        .map(
            cell ->
                progress.test(
                    cell.name(),
                    () -> FaultsIT.check(cell.recipe(), cell.variation(), cell.fault())));
  }

  @TestFactory
  @Order(1)
  Stream<DynamicTest> every_fault_is_survived_by_every_kind_of_training() {
    List<Recipe> recipes = recipes();
    return tests("faults", everyFault(recipes, Variation.DEFAULT, design(recipes.size(), 1)));
  }

  /** One kind of training for each fault in a repetition, and another one in the next. */
  @TestFactory
  @Order(2)
  Stream<DynamicTest> every_fault_is_survived_through_the_bridge() {
    List<Recipe> recipes = recipes();
    CoveringDesign design = new CoveringDesign(recipes.size(), 1, SEED);
    return tests("bridge", everyFault(recipes, Variation.BRIDGE, design));
  }

  private static List<Cell> everyFault(
      List<Recipe> recipes, Variation variation, CoveringDesign design) {
    List<Cell> cells = new ArrayList<>();
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
      List<FaultCase> faults = new ArrayList<>(FaultCase.single(new Random(SEED + repetition)));
      faults.addAll(PairsIT.cases());
      faults.addAll(LocalModeIT.cases());
      for (int row = 0; row < faults.size(); row++) {
        for (int column : design.columnsOf(row, repetition)) {
          cells.add(new Cell(recipes.get(column), variation, faults.get(row), repetition));
        }
      }
    }
    return cells;
  }

  @TestFactory
  @Order(3)
  Stream<DynamicTest> the_main_faults_are_survived_with_every_setting() {
    List<FaultCase> faults = FaultCase.main();
    List<Recipe> recipes = recipes();
    CoveringDesign design = design(faults.size(), 1);
    List<Variation> variations =
        Arrays.stream(Variation.values())
            .filter(variation -> variation != Variation.DEFAULT)
            .collect(Collectors.toList());
    List<Cell> cells = new ArrayList<>();
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
      for (int row = 0; row < variations.size(); row++) {
        Variation variation = variations.get(row);
        List<Recipe> suited =
            recipes.stream().filter(variation::suits).collect(Collectors.toList());
        for (int column : design.columnsOf(row, repetition)) {
          if (!suited.isEmpty()) {
            Recipe recipe = suited.get((row + column + repetition) % suited.size());
            cells.add(new Cell(recipe, variation, faults.get(column), repetition));
          }
        }
      }
    }
    return tests("settings", cells);
  }

  @TestFactory
  @Order(4)
  Stream<DynamicTest> random_kills_are_survived_for_as_long_as_asked() {
    Random random = new Random(SEED);
    List<Recipe> recipes = recipes();
    long end = System.nanoTime() + RANDOM_KILLS.toNanos();
    Progress progress = new Progress("random", 0);
    return Stream.generate(() -> random)
        .takeWhile(more -> System.nanoTime() < end)
        .map(
            more -> {
              Recipe recipe = recipes.get(more.nextInt(recipes.size()));
              FaultCase kills = FaultCase.randomKills(more);
              return progress.test(
                  recipe + ": " + kills.name(), () -> FaultsIT.check(recipe, kills));
            });
  }
}
