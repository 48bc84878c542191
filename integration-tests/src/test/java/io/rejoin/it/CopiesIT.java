package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.LongAccumulator;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/** What Spark does for the stored rows when it loses an executor: the ranks wait meanwhile. */
@DisplayName("copies of the input")
class CopiesIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int WORKERS = 3;

  /** The round in which all wait until the copies are where they should be. */
  private static final int GATE = 5;

  /** That in which the others wait for a rank that moves. */
  private static final int LATER = 12;

  @TempDir Path temporary;

  private final Map<Integer, String> executorOf = new ConcurrentHashMap<>();

  @Test
  void are_made_anew_when_an_executor_dies_so_that_another_one_may_die_after_it() throws Exception {
    madeAnew(2);
  }

  /** At the death there is none that has no copy, and Spark tries it once. */
  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void are_made_anew_when_an_executor_comes_where_all_others_have_one() throws Exception {
    madeAnew(Sessions.Shape.SINGLE.executors());
  }

  private void madeAnew(int copies) throws Exception {
    String replicas = Integer.toString(copies);
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    Undisturbed calm = undisturbed(spark, replicas);
    FileGate gate = gate("shut");
    gate.open(LATER);
    LongAccumulator computed = spark.sparkContext().longAccumulator();
    RejoinRun run = run(spark, replicas, gate, computed);
    AtomicReference<Object> seen = new AtomicReference<>();
    atTheGate(
        run,
        gate,
        seen,
        () -> {
          InputCopies.awaited(spark, WORKERS, holders -> holders.size() == copies);
          String victim = holderWithARank(spark);
          signal(spark, victim, "KILL");
          return InputCopies.awaited(
              spark, WORKERS, holders -> holders.size() >= copies && !holders.contains(victim));
        });
    train(run, calm, seen);
    assertEquals(calm.computed(), computed.value(), "rows that were computed");
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void move_when_an_executor_is_told_of_its_end_and_no_row_is_computed_again() throws Exception {
    SparkSession spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.decommission.enabled", "true",
                "spark.storage.decommission.enabled", "true"));
    Undisturbed calm = undisturbed(spark, "1");
    FileGate gate = gate("shut");
    LongAccumulator computed = spark.sparkContext().longAccumulator();
    // One copy: when it hasn't moved, it is gone with its executor.
    RejoinRun run = run(spark, "1", gate, computed);
    AtomicReference<Object> seen = new AtomicReference<>();
    atTheGate(
        run,
        gate,
        seen,
        () -> {
          String victim = holderWithARank(spark);
          signal(spark, victim, "PWR");
          return InputCopies.awaited(
              spark, WORKERS, holders -> !holders.isEmpty() && !holders.contains(victim));
        });
    run.listen(
        event -> {
          if (isBack(event)) {
            gate.open(LATER);
          }
        });
    train(run, calm, seen);
    assertEquals(1, all(run, Kind.RANK_MOVED).size(), () -> "events: " + run.events());
    TrainingEvent moved = all(run, Kind.RANK_MOVED).get(0);
    TrainingEvent back = run.events().stream().filter(CopiesIT::isBack).findFirst().orElseThrow();
    assertNotEquals(moved.text("executor"), back.text("executor"));
    assertEquals(calm.computed(), computed.value(), "rows that were computed");
  }

  /**
   * What an undisturbed training gives.
   *
   * @param digest of the model
   * @param computed how often a row was computed for it
   */
  private record Undisturbed(String digest, long computed) {}

  private Undisturbed undisturbed(SparkSession spark, String replicas) throws Exception {
    FileGate open = gate("open");
    open.open(GATE);
    open.open(LATER);
    LongAccumulator computed = spark.sparkContext().longAccumulator();
    RejoinRun calm = run(spark, replicas, open, computed);
    String digest = Deadline.within(LIMIT, "undisturbed", Sessions.cluster(), calm::train).digest();
    assertTrue(computed.value() > 0, "no row was counted");
    return new Undisturbed(digest, computed.value());
  }

  private FileGate gate(String name) throws Exception {
    return new FileGate(Files.createDirectory(temporary.resolve(name)));
  }

  private static RejoinRun run(
      SparkSession spark, String replicas, FileGate gate, LongAccumulator computed) {
    XGBoostClassifier stock =
        (XGBoostClassifier) Recipe.BINARY.estimator(spark, WORKERS, FaultCase.ROUNDS);
    stock.setCustomObj(new GatedObjective(gate, GATE, LATER));
    Dataset<Row> rows =
        Recipe.BINARY
            .data(spark, WORKERS)
            .repartition(WORKERS)
            .withColumn(
                "label",
                functions
                    .udf(
                        (UDF1<Double, Double>)
                            label -> {
                              computed.add(1);
                              return label;
                            },
                        DataTypes.DoubleType)
                    .asNondeterministic()
                    .apply(functions.col("label")));
    return Calm.run(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS)
        .setting("spark.rejoin.input.replicas", replicas)
        .estimator(stock)
        .data(rows);
  }

  /** What happens while all wait. */
  private interface Course {
    Object take() throws Exception;
  }

  /**
   * Takes its course once, when the victim is in that round; what it ends with is in {@code end}.
   */
  private void atTheGate(RejoinRun run, FileGate gate, AtomicReference<Object> end, Course course) {
    AtomicBoolean isDone = new AtomicBoolean();
    run.listen(
        event -> {
          if (event.kind() == Kind.RANK_JOINED) {
            executorOf.putIfAbsent((int) event.number("rank"), event.text("executor"));
          } else if (event.kind() == Kind.VERSION_ENTERED
              && event.number("version") == GATE
              && isDone.compareAndSet(false, true)) {
            try {
              end.set(course.take());
            } catch (Exception | AssertionError failed) {
              end.set(failed);
            } finally {
              gate.open(GATE);
            }
          }
        });
  }

  /** Of which there are some: there are four executors, three ranks and three first pages. */
  private String holderWithARank(SparkSession spark) {
    Map<Integer, Set<String>> holders =
        InputCopies.awaited(spark, WORKERS, some -> !some.isEmpty());
    System.out.println("ranks are on " + executorOf + ", their rows on " + holders);
    return executorOf.values().stream()
        .filter(executor -> holders.values().stream().anyMatch(all -> all.contains(executor)))
        .findFirst()
        .orElseThrow();
  }

  private static void succeeded(AtomicReference<Object> end) {
    if (end.get() instanceof Throwable) {
      throw new AssertionError((Throwable) end.get());
    }
    System.out.println("copies by rank: " + end.get());
  }

  private static void train(RejoinRun run, Undisturbed calm, AtomicReference<Object> seen)
      throws Exception {
    Outcome outcome = Deadline.within(LIMIT, "with lost copies", Sessions.cluster(), run::train);
    succeeded(seen);
    assertNull(outcome.trouble());
    assertEquals(calm.digest(), outcome.digest(), () -> "events: " + run.events());
  }

  private static void signal(SparkSession spark, String executor, String name) {
    Processes.executor(Sessions.cluster().mark(), spark.sparkContext().applicationId(), executor)
        .ifPresent(process -> Processes.signal(process.pid(), name));
  }

  private static boolean isBack(TrainingEvent event) {
    return event.kind() == Kind.RANK_JOINED && event.number("incarnation") == 1;
  }

  private static List<TrainingEvent> all(RejoinRun run, Kind kind) {
    return run.events().stream().filter(event -> event.kind() == kind).collect(Collectors.toList());
  }
}
