package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * The table of faults, on a real cluster: whatever fault is injected, the model is the one of the
 * undisturbed training.
 */
@DisplayName("whatever fault is injected, the model is the same, byte for byte")
class FaultsIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  static final long SEED = Long.getLong("rejoin.it.seed", System.nanoTime());
  private static final Map<String, Calm> UNDISTURBED = new ConcurrentHashMap<>();

  @TestFactory
  Stream<DynamicTest> every_fault_is_survived() {
    System.out.println("random faults: repeat with -Drejoin.it.seed=" + SEED);
    List<FaultCase> cases = FaultCase.single(new Random(SEED));
    return cases.stream()
        .filter(one -> one.name().contains(System.getProperty("rejoin.it.only", "")))
        .map(one -> DynamicTest.dynamicTest(one.name(), () -> check(Recipe.BINARY, one)));
  }

  @TestFactory
  Stream<DynamicTest> a_killed_executor_is_survived_by_other_kinds_of_training() {
    // All kinds under all faults are LongIT's.
    return Stream.of(Recipe.DART, Recipe.EARLY_STOPPING, Recipe.RANKING)
        .map(
            recipe -> {
              FaultCase killed =
                  new FaultCase(
                      recipe + " goes on after a kill",
                      3,
                      1,
                      (run, calm) -> run.fault(Fault.of(1).version(5, 5_000).kill()));
              return DynamicTest.dynamicTest(killed.name(), () -> check(recipe, killed));
            });
  }

  @TestFactory
  Stream<DynamicTest> a_killed_executor_is_survived_through_the_bridge() {
    // Others go through it with XGBoost 3.2.0, which has no hook, and all of them in LongIT.
    return FaultCase.main().stream()
        .filter(one -> one.name().contains("middle round"))
        .map(
            one ->
                DynamicTest.dynamicTest(
                    one.name(), () -> check(Recipe.BINARY, Variation.BRIDGE, one)));
  }

  @Test
  void a_worker_that_throws_where_no_other_slot_is_free_rejoins_from_its_own_process()
      throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    int everywhere = Sessions.Shape.SINGLE.executors();
    Calm calm = undisturbed(spark, Recipe.BINARY, Variation.DEFAULT, everywhere);
    RejoinRun run =
        Calm.run(spark, Recipe.BINARY, everywhere, FaultCase.ROUNDS)
            .fault(Fault.of(1).version(calm.middle(), calm.inside()).throwError());
    Outcome outcome = Deadline.within(LIMIT, "one throws", Sessions.cluster(), run::train);
    assertNull(outcome.trouble());
    assertEquals(calm.digest(), outcome.digest(), () -> "events: " + run.events());
    List<String> executors =
        values(run, Kind.RANK_JOINED, event -> event.number("rank") == 1, "executor");
    assertEquals(2, executors.size(), () -> "events: " + run.events());
    assertEquals(executors.get(0), executors.get(1), () -> "events: " + run.events());
    assertEquals(List.of(), values(run, Kind.AGENT_LOST, event -> true, "executor"));
    // Its checkpoint was there, and came over no network.
    List<String> sources = values(run, Kind.RESTORED, event -> true, "source");
    assertEquals(1, sources.size(), () -> "events: " + run.events());
    assertTrue(sources.get(0).matches("(the memory of )?this process"), sources::toString);
  }

  private static List<String> values(
      RejoinRun run, Kind kind, Predicate<TrainingEvent> which, String field) {
    return run.events().stream()
        .filter(event -> event.kind() == kind && which.test(event))
        .map(event -> event.text(field))
        .collect(Collectors.toList());
  }

  static void check(Recipe recipe, FaultCase fault) throws Exception {
    check(recipe, Variation.DEFAULT, fault);
  }

  /**
   * The undisturbed training. Where the ranks are changes nothing about the model, so the sessions'
   * shapes share it.
   */
  static Calm undisturbed(SparkSession spark, Recipe recipe, Variation variation, int workers)
      throws Exception {
    String key = recipe + " " + workers + (variation.hasRowsOfItsOwn() ? " " + variation : "");
    Calm calm = UNDISTURBED.get(key);
    if (calm == null) {
      Dataset<Row> rows = variation.rows(spark, recipe, workers);
      calm = Calm.of(Calm.run(spark, recipe, workers, FaultCase.ROUNDS).data(rows), LIMIT);
      System.out.println(key + ", undisturbed: " + calm);
      UNDISTURBED.put(key, calm);
    }
    return calm;
  }

  /**
   * Trains under this fault with these settings; the model must be that of the undisturbed training
   * with the default ones.
   */
  static void check(Recipe recipe, Variation variation, FaultCase fault) throws Exception {
    SparkSession spark = Sessions.of(fault.shape());
    StandaloneCluster cluster = Sessions.cluster();
    int workers = fault.workers();
    Dataset<Row> rows = variation.rows(spark, recipe, workers);
    Calm calm = undisturbed(spark, recipe, variation, workers);
    RejoinRun run = Calm.run(spark, recipe, workers, FaultCase.ROUNDS).data(rows);
    variation.apply(spark, run);
    fault.prepare().accept(run, calm);
    Outcome outcome = Deadline.within(LIMIT, fault.name(), cluster, run::train);
    assertNull(outcome.trouble());
    assertEquals(
        calm.digest(),
        outcome.digest(),
        "the model differs from that of the undisturbed training; events: " + run.events());
    long restarts =
        run.events().stream()
            .filter(e -> e.kind() == Kind.RANK_JOINED && e.number("incarnation") > 0)
            .count();
    assertNull(variation.withoutEffect(run), () -> "events: " + run.events());
    assertTrue(
        run.signals(), "the signal that the test sends by event was not sent: " + run.events());
    if (fault.restarts() == 0) {
      assertEquals(0, restarts, "no rank should have been restarted: " + run.events());
    } else {
      assertTrue(
          restarts >= fault.restarts(),
          "expected " + fault.restarts() + " restarts: " + run.events());
    }
  }
}
