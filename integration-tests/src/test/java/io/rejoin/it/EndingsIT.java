package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.Predictor;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Trainings that must end with a clear error, or as the stock estimator ends, and leave the cluster
 * usable.
 */
@DisplayName("how a training ends")
class EndingsIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int WORKERS = 3;

  @Test
  void an_undisturbed_training_gives_the_stock_estimators_model() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    for (Recipe recipe : Recipe.values()) {
      String stock =
          Deadline.within(
              LIMIT,
              "stock " + recipe,
              Sessions.cluster(),
              () -> {
                Predictor<?, ?, ?> estimator = recipe.estimator(spark, WORKERS, FaultCase.ROUNDS);
                Model<?> model = estimator.fit(recipe.data(spark, WORKERS));
                return Digest.of(model);
              });
      RejoinRun run = new RejoinRun(spark, recipe, WORKERS, FaultCase.ROUNDS);
      assertEquals(
          stock,
          Deadline.within(LIMIT, "ours " + recipe, Sessions.cluster(), run::train).digest(),
          recipe.name());
    }
  }

  /** Beside the stock estimator's of the same run, one that doesn't change with both of them. */
  @Test
  void a_hundred_rounds_on_xgboost_3_4_0_give_the_model_that_the_first_demo_had() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS, 100);
    String digest = Deadline.within(LIMIT, "demo", Sessions.cluster(), run::train).digest();
    assertEquals("7de698be1603b19f", digest.substring(0, 16));
  }

  @Test
  void a_users_objective_that_throws_once_costs_one_restart_and_not_the_model() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    String calm = withObjective(spark, new LogisticObjective(1, 9, 0)).digest();
    assertEquals(calm, withObjective(spark, new LogisticObjective(1, 9, 1)).digest());
  }

  private static Outcome withObjective(SparkSession spark, LogisticObjective objective)
      throws Exception {
    XGBoostClassifier stock =
        (XGBoostClassifier) Recipe.BINARY.estimator(spark, WORKERS, FaultCase.ROUNDS);
    stock.setCustomObj(objective);
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS).estimator(stock);
    return Deadline.within(LIMIT, "custom objective", Sessions.cluster(), run::train);
  }

  @Test
  void a_job_that_the_user_cancels_in_a_round_ends_and_the_next_fit_works() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    AtomicBoolean cancelled = new AtomicBoolean();
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS, 200);
    run.listen(
        event -> {
          if (event.kind() == Kind.VERSION_ENTERED
              && event.number("round") >= 5
              && cancelled.compareAndSet(false, true)) {
            spark.sparkContext().cancelJobGroup("to be cancelled");
          }
        });
    Exception error =
        assertThrows(
            Exception.class,
            () ->
                Deadline.within(
                    LIMIT,
                    "cancelled training",
                    Sessions.cluster(),
                    () -> {
                      spark.sparkContext().setJobGroup("to be cancelled", "a test", false);
                      try {
                        return run.train();
                      } finally {
                        spark.sparkContext().clearJobGroup();
                      }
                    }));
    assertTrue(cancelled.get(), "the training ended before it was cancelled: " + error);
    assertEquals(
        Sessions.Shape.SINGLE.executors(), Executors.present(spark), "executors must stay");
    RejoinRun next = new RejoinRun(spark, Recipe.BINARY, WORKERS, 5);
    assertEquals(
        64,
        Deadline.within(LIMIT, "the next training", Sessions.cluster(), next::train)
            .digest()
            .length());
  }

  @Test
  void a_fit_whose_thread_is_interrupted_ends_and_the_next_fit_works() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    AtomicReference<Thread> fitting = new AtomicReference<>();
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS, 2_000);
    run.listen(
        event -> {
          if (event.kind() == Kind.VERSION_ENTERED && event.number("round") >= 5) {
            Thread once = fitting.getAndSet(null);
            if (once != null) {
              once.interrupt();
            }
          }
        });
    RejoinException error =
        assertThrows(
            RejoinException.class,
            () ->
                Deadline.within(
                    LIMIT,
                    "interrupted training",
                    Sessions.cluster(),
                    () -> {
                      fitting.set(Thread.currentThread());
                      return run.train();
                    }));
    assertEquals(Code.CANCELLED, error.code(), error.getMessage());
    assertEquals(
        Sessions.Shape.SINGLE.executors(), Executors.present(spark), "executors must stay");
    Refusal.nextFitWorks(spark);
  }

  @Test
  void a_rank_that_stays_away_too_long_ends_the_job_with_who_is_missing_and_the_setting()
      throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    StandaloneCluster cluster = Sessions.cluster();
    // Without the cluster's worker no other executor is started, and no slot is spare.
    int workers = Sessions.Shape.SINGLE.executors();
    Map<Integer, String> executors = new ConcurrentHashMap<>();
    AtomicBoolean disturbed = new AtomicBoolean();
    RejoinRun run =
        new RejoinRun(spark, Recipe.BINARY, workers, 2_000)
            .setting("spark.rejoin.members.timeout", "20s");
    run.listen(
        event -> {
          if (event.kind() == Kind.RANK_JOINED) {
            executors.put(event.rank().getAsInt(), event.text("executor"));
          } else if (event.kind() == Kind.VERSION_ENTERED
              && event.number("round") >= 5
              && disturbed.compareAndSet(false, true)) {
            Processes.signal(cluster.workerProcess().pid(), "STOP");
            Processes.executor(
                    cluster.mark(), spark.sparkContext().applicationId(), executors.get(1))
                .ifPresent(process -> Processes.signal(process.pid(), "KILL"));
          }
        });
    RejoinException error;
    try {
      error =
          assertThrows(
              RejoinException.class,
              () -> Deadline.within(LIMIT, "a rank away", cluster, run::train));
    } finally {
      Processes.signal(cluster.workerProcess().pid(), "CONT");
    }
    assertTrue(disturbed.get(), "no fault has fired: " + error);
    assertEquals(Code.MEMBERS_MISSING, error.code(), error.getMessage());
    for (String part : new String[] {"rank 1", "20 s", "spark.rejoin.members.timeout"}) {
      assertTrue(error.text().contains(part), error.text());
    }
    Refusal.nextFitWorks(Sessions.of(Sessions.Shape.SINGLE));
  }

  @Test
  void more_deaths_than_the_budget_are_warned_of_and_end_the_job_with_who_died_how_often_and_why()
      throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS);
    for (int death = 0; death < 3; death++) {
      run.fault(Fault.of(1).incarnation(death).version(3 + death, 5_000).kill());
    }
    // The last one waits for the warning: should it come too late, it comes never.
    run.fault(Fault.of(1).incarnation(3).version(6, 5_000).stop());
    run.setting("spark.rejoin.checkpoint.rounds", "1").setting("spark.rejoin.lost.after", "120s");
    // A death before the rows' second copies are there takes rows along, and costs more than
    // itself.
    spark
        .sparkContext()
        .setCheckpointDir(Sessions.cluster().work().folder("checkpoints").toString());
    run.setting("spark.rejoin.input", "checkpoint");
    Map<Integer, String> executors = new ConcurrentHashMap<>();
    List<List<String>> before = new CopyOnWriteArrayList<>();
    Exception error;
    try (Logs logs = Logs.collectAll()) {
      run.listen(
          event -> {
            if (event.kind() == Kind.RANK_JOINED) {
              executors.put(event.rank().getAsInt(), event.text("executor"));
            } else if (event.kind() == Kind.FAULT_FIRED && event.number("id") == 3) {
              before.add(awaited(logs, "the next death that counts ends the job"));
              Processes.executor(
                      Sessions.cluster().mark(),
                      spark.sparkContext().applicationId(),
                      executors.get(1))
                  .ifPresent(process -> Processes.signal(process.pid(), "KILL"));
            }
          });
      error =
          assertThrows(
              Exception.class,
              () -> Deadline.within(LIMIT, "too many deaths", Sessions.cluster(), run::train));
      spark.sparkContext().setCheckpointDir(null);
      assertEquals(1, logs.with("spark.decommission.enabled is off").size());
      assertEquals(1, logs.with("each rank may die 3 times (spark.task.maxFailures)").size());
    }
    assertEquals(1, before.size(), () -> "events: " + run.events());
    assertEquals(1, before.get(0).size(), () -> "warnings before the last death: " + before);
    String warning = before.get(0).get(0);
    assertTrue(warning.contains("rank 1 has died 3 times"), warning);
    assertTrue(warning.contains("spark.task.maxFailures"), warning);
    String message = String.valueOf(error.getMessage());
    assertTrue(message.contains("rank 1"), message);
    assertTrue(message.contains("spark.task.maxFailures"), message);
    assertTrue(
        message.contains("of the executors all but one may die at the same moment"), message);
    assertEquals(4, run.fired());
  }

  private static List<String> awaited(Logs logs, String part) {
    try {
      return logs.awaited(part, 1);
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
      return List.of();
    }
  }
}
