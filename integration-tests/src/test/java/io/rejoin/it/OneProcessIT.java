package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.TaskKilled;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Trainings in one JVM, on one loaded XGBoost, at the same time: their ranks wait for each other in
 * the middle of their rounds.
 */
@DisplayName("trainings at the same time in one JVM don't disturb each other")
class OneProcessIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int WORKERS = 2;
  private static final int ROUNDS = 8;

  /** Slots for two trainings, and for what prepares their rows. */
  private static SparkSession spark() {
    return Sessions.of(Sessions.Shape.LOCAL, Map.of("spark.master", "local[6,4]"));
  }

  private static XGBoostClassifier stock(SparkSession spark, int depth, ObjectiveTrait objective) {
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(spark, WORKERS, ROUNDS);
    stock.setMaxDepth(depth);
    stock.setObjective("binary:logistic");
    stock.setCustomObj(objective);
    return stock;
  }

  private static RejoinRun ours(SparkSession spark, int depth, ObjectiveTrait objective) {
    return new RejoinRun(spark, Recipe.BINARY, WORKERS, ROUNDS)
        .data(rows(spark))
        .estimator(stock(spark, depth, objective));
  }

  private static Dataset<Row> rows(SparkSession spark) {
    return Recipe.BINARY.data(spark, WORKERS);
  }

  private static ObjectiveTrait alone() {
    return new LogisticObjective(0, 0, 0);
  }

  private static <T> T within(String what, Callable<T> work) throws Exception {
    return Deadline.within(LIMIT, what, Sessions.cluster(), work);
  }

  private static String digest(String what, RejoinRun run) throws Exception {
    Outcome outcome = within(what, run::train);
    assertTrue(
        run.events().stream()
            .anyMatch(e -> e.kind() == Kind.HOOK_AGREED && e.text("hooked").equals("true")),
        what + " goes through the bridge: " + run.events());
    return outcome.digest();
  }

  /** Begins this on a thread of its own. */
  private static CompletableFuture<String> beside(Callable<String> work) {
    CompletableFuture<String> digest = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                digest.complete(work.call());
              } catch (Throwable failed) {
                digest.completeExceptionally(failed);
              }
            },
            "the other training");
    thread.setDaemon(true);
    thread.start();
    return digest;
  }

  @Test
  void the_stock_estimator_and_ours_train_their_own_models_round_by_round_beside_each_other()
      throws Exception {
    SparkSession spark = spark();
    String shallow = within("stock", () -> Digest.of(stock(spark, 3, alone()).fit(rows(spark))));
    String deep = digest("ours", ours(spark, 6, alone()));
    Integer[] rounds = {0, 1, 3, 4, 5, 7};
    CyclicBarrier meeting = MeetingObjective.open("stock and ours", 2 * WORKERS);
    MeetingObjective objective = MeetingObjective.meeting("stock and ours", rounds);
    CompletableFuture<String> stock =
        beside(
            () ->
                within(
                    "stock beside ours",
                    () -> Digest.of(stock(spark, 3, objective).fit(rows(spark)))));
    assertEquals(deep, digest("ours beside stock", ours(spark, 6, objective)));
    assertEquals(shallow, stock.get());
    assertTrue(!meeting.isBroken() && meeting.getNumberWaiting() == 0, "all have met");
  }

  @Test
  void one_of_two_of_ours_whose_task_is_killed_in_a_call_comes_back_while_the_other_one_waits()
      throws Exception {
    SparkSession spark = spark();
    String shallow = digest("one", ours(spark, 3, alone()));
    String deep = digest("the other one", ours(spark, 6, alone()));
    MeetingObjective.open("two of ours", 2 * WORKERS);
    CountDownLatch killed = MeetingObjective.gate("killed");
    CountDownLatch isBack = MeetingObjective.gate("is back");
    // The killed rank waits in a call for rank 0, which goes on when the killed task has ended.
    MeetingObjective meeting = MeetingObjective.meeting("two of ours", 2);
    RejoinRun disturbed =
        ours(spark, 3, meeting.waiting("killed", 0, 4))
            .setting("spark.rejoin.checkpoint.rounds", "1");
    RejoinRun quiet = ours(spark, 6, meeting.waiting("is back", 0, 5));
    Kill kill = new Kill(spark, killed);
    disturbed.listen(
        event -> {
          if (event.kind() == Kind.CAUGHT_UP) {
            isBack.countDown();
          } else if (event.kind() == Kind.VERSION_ENTERED
              && event.rank().getAsInt() == 1
              && event.number("round") == 4) {
            kill.killOrder();
          }
        });
    spark.sparkContext().addSparkListener(kill);
    try {
      CompletableFuture<String> other = beside(() -> digest("the quiet one", quiet));
      assertEquals(shallow, digest("the struck one", disturbed), "events: " + disturbed.events());
      assertEquals(deep, other.get(), "events: " + quiet.events());
    } finally {
      spark.sparkContext().removeSparkListener(kill);
    }
    assertTrue(kill.hasKilled(), "the task ended otherwise");
    assertEquals(1, restarts(disturbed), "events: " + disturbed.events());
    assertEquals(0, restarts(quiet), "events: " + quiet.events());
  }

  private static long restarts(RejoinRun run) {
    return run.events().stream()
        .filter(e -> e.kind() == Kind.RANK_JOINED && e.number("incarnation") > 0)
        .count();
  }

  /** Kills the first task of rank 1 once, through Spark, and opens a gate when it has ended. */
  private static final class Kill extends SparkListener {
    private final SparkSession spark;
    private final CountDownLatch gate;
    private long task = -1;
    private boolean killed;

    Kill(SparkSession spark, CountDownLatch gate) {
      this.spark = spark;
      this.gate = gate;
    }

    synchronized void killOrder() {
      if (task < 0) {
        task = MeetingObjective.task("killed", 1);
        spark.sparkContext().killTaskAttempt(task, true, "killed by the test");
      }
    }

    @Override
    public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
      if (event.taskInfo().taskId() == task) {
        killed = event.reason() instanceof TaskKilled;
        gate.countDown();
      }
    }

    synchronized boolean hasKilled() {
      return killed;
    }
  }
}
