package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent.Kind;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * All copies of a rank's input die together with the rank: its rows are made again, and the rank
 * goes on if they are the same. If not, all begin again on the new ones.
 */
@DisplayName("when all copies of an input partition are lost")
class LostInputIT {
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final int WORKERS = 3;
  private static final int VICTIM = 1;
  private static final int ROUND = 5;

  @TempDir Path temporary;

  @Test
  void rows_that_come_back_the_same_give_the_same_model() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun calm = new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS);
    String expected =
        Deadline.within(LIMIT, "undisturbed", Sessions.cluster(), calm::train).digest();
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS);
    Set<String> killed = killAllCopiesAndTheirRank(spark, run);
    Outcome outcome = Deadline.within(LIMIT, "rows made again", Sessions.cluster(), run::train);
    assertFalse(killed.isEmpty(), "no rank was killed: " + run.events());
    assertEquals(expected, outcome.digest(), "events: " + run.events());
    assertTrue(restarts(run) >= 1, "no rank was restarted: " + run.events());
  }

  @Test
  void rows_that_come_back_different_make_the_fit_begin_again_on_these_alone() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run = withRowsThatTurn(spark);
    Set<String> killed = killAllCopiesAndTheirRank(spark, run);
    Outcome outcome;
    try (Logs logs = Logs.collect()) {
      outcome = Deadline.within(LIMIT, "other rows", Sessions.cluster(), run::train);
      assertEquals(1, logs.awaited("the training begins again", 1).size());
    }
    assertFalse(killed.isEmpty(), "no rank was killed: " + run.events());
    // The rows stay as they have become.
    RejoinRun calm = withRowsThatTurn(spark);
    String expected =
        Deadline.within(LIMIT, "undisturbed", Sessions.cluster(), calm::train).digest();
    assertEquals(expected, outcome.digest(), "events: " + run.events());
  }

  @Test
  void rows_that_come_back_different_end_a_job_that_may_not_begin_again() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run = withRowsThatTurn(spark).setting("spark.rejoin.input.lost", "fail");
    Set<String> killed = killAllCopiesAndTheirRank(spark, run);
    RejoinException error =
        assertThrows(
            RejoinException.class,
            () -> Deadline.within(LIMIT, "other rows", Sessions.cluster(), run::train),
            () ->
                "killed executors "
                    + killed
                    + ", and yet there is a model; events: "
                    + run.events());
    assertFalse(killed.isEmpty(), "no rank was killed: " + error);
    assertEquals(RejoinException.Code.INPUT_LOST, error.code(), error.text());
    assertTrue(error.text().contains("partition"), error.text());
  }

  /** Of a data set whose labels are turned round once the executors have begun to die. */
  private RejoinRun withRowsThatTurn(SparkSession spark) {
    String sign = dying().toString();
    UserDefinedFunction turned =
        functions
            .udf(
                (UDF1<Double, Double>)
                    label -> Files.exists(Path.of(sign)) ? Double.valueOf(1 - label) : label,
                DataTypes.DoubleType)
            .asNondeterministic();
    return new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS)
        .setting("spark.rejoin.checkpoint.rounds", "1")
        // Behind the shuffle: before it, a shuffle file that survives would bring the old rows.
        .data(
            Recipe.BINARY
                .data(spark, WORKERS)
                .repartition(WORKERS)
                .withColumn("label", turned.apply(functions.col("label"))));
  }

  private Path dying() {
    return temporary.resolve("dying");
  }

  private static long restarts(RejoinRun run) {
    return run.events().stream()
        .filter(e -> e.kind() == Kind.RANK_JOINED && e.number("incarnation") > 0)
        .count();
  }

  /**
   * When the round is reached: SIGKILL to every executor with a copy of the victim's rows, and to
   * the victim's own. The victim is stopped in that round first, so that the training can't end
   * before all of them are gone.
   */
  private Set<String> killAllCopiesAndTheirRank(SparkSession spark, RejoinRun run) {
    Set<String> killed = new ConcurrentSkipListSet<>();
    Map<Integer, String> executorOf = new ConcurrentHashMap<>();
    run.setting("spark.rejoin.input.replicas", "1")
        .setting("spark.rejoin.checkpoint.rounds", "1")
        .fault(Fault.of(VICTIM).version(ROUND, 1_000).stop());
    run.listen(
        event -> {
          if (event.kind() == Kind.RANK_JOINED) {
            executorOf.putIfAbsent(event.rank().getAsInt(), event.text("executor"));
          } else if (event.kind() == Kind.FAULT_FIRED) {
            Set<String> holders = InputCopies.holders(spark, VICTIM);
            assertFalse(holders.isEmpty(), "no executor has a copy of the rows");
            String victim = executorOf.get(VICTIM);
            killed.addAll(holders);
            killed.add(victim);
            sign();
            // The copies go first: a victim that comes back quickly would read one that is dying.
            holders.stream()
                .filter(holder -> !holder.equals(victim))
                .forEach(holder -> killForCertain(spark, holder));
            kill(spark, victim);
          }
        });
    return killed;
  }

  private void sign() {
    try {
      Files.createFile(dying());
    } catch (IOException cannot) {
      throw new UncheckedIOException(cannot);
    }
  }

  private static void kill(SparkSession spark, String executor) {
    Processes.executor(Sessions.cluster().mark(), spark.sparkContext().applicationId(), executor)
        .ifPresent(process -> Processes.signal(process.pid(), "KILL"));
  }

  /** Returns when the process is gone. */
  private static void killForCertain(SparkSession spark, String executor) {
    Processes.executor(Sessions.cluster().mark(), spark.sparkContext().applicationId(), executor)
        .ifPresent(
            process -> {
              Optional<ProcessHandle> handle = ProcessHandle.of(process.pid());
              Processes.signal(process.pid(), "KILL");
              handle.ifPresent(
                  one -> one.onExit().orTimeout(LIMIT.toSeconds(), TimeUnit.SECONDS).join());
            });
  }
}
