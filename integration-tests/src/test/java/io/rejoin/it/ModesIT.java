package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** Settings other than the defaults, on a real cluster, each with a kill. */
@DisplayName("other ways to read, to talk, and to get executors")
class ModesIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int WORKERS = 3;
  private static final int ROUNDS = 10;

  private static SparkSession spark() {
    return Sessions.of(Sessions.Shape.SINGLE);
  }

  private static RejoinRun run(SparkSession spark) {
    return new RejoinRun(spark, Recipe.BINARY, WORKERS, ROUNDS)
        .setting("spark.rejoin.checkpoint.rounds", "1");
  }

  private static Outcome train(String what, RejoinRun run) throws Exception {
    return Deadline.within(LIMIT, what, Sessions.cluster(), run::train);
  }

  private static String calm(SparkSession spark, Dataset<Row> rows) throws Exception {
    return train("undisturbed", run(spark).data(rows)).digest();
  }

  /** Trains these rows with a kill in a round and compares with the undisturbed training. */
  private static void survivesAKill(String setting, String value, Dataset<Row> rows)
      throws Exception {
    SparkSession spark = spark();
    String expected = calm(spark, rows);
    Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run =
        run(spark).data(rows).setting(setting, value).fault(Fault.of(1).version(4, 20_000).kill());
    Outcome outcome = train(setting + "=" + value, run);
    assertNull(outcome.trouble());
    assertEquals(expected, outcome.digest(), "events: " + run.events());
    assertEquals(1, restarts(run), "restarts: " + run.events());
  }

  private static long restarts(RejoinRun run) {
    return run.events().stream()
        .filter(e -> e.kind() == Kind.RANK_JOINED && e.number("incarnation") > 0)
        .count();
  }

  @Test
  void a_kill_is_survived_with_encrypted_links() throws Exception {
    survivesAKill("spark.rejoin.encrypt", "true", Recipe.BINARY.data(spark(), WORKERS));
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void checkpoints_come_so_often_that_the_logs_of_two_intervals_stay_in_their_memory()
      throws Exception {
    SparkSession spark = spark();
    RejoinRun roomy = run(spark, 40).setting("spark.rejoin.checkpoint.rounds", "0");
    String expected = train("with room for all logs", roomy).digest();
    // The logs of two rounds fit, those of four don't: a round's results are about 160 KB.
    String memory = "512k";
    RejoinRun rare =
        run(spark, 40)
            .setting("spark.rejoin.checkpoint.rounds", "40")
            .setting("spark.rejoin.log.memory", memory);
    assertEquals(expected, train("with rare checkpoints", rare).digest());
    assertTrue(spilled(rare) > 0, "there is room for all logs: " + rare.events());
    RejoinRun bounded =
        run(Sessions.of(Sessions.Shape.SINGLE), 40)
            .setting("spark.rejoin.checkpoint.rounds", "0")
            .setting("spark.rejoin.log.memory", memory)
            .fault(Fault.of(1).version(3, 20_000).kill());
    Outcome outcome = train("with little room for logs", bounded);
    assertNull(outcome.trouble());
    assertEquals(expected, outcome.digest(), "events: " + bounded.events());
    assertTrue(versions(bounded) > versions(roomy), "not more often: " + bounded.events());
  }

  private static RejoinRun run(SparkSession spark, int rounds) {
    return new RejoinRun(spark, Recipe.BINARY, WORKERS, rounds);
  }

  private static long versions(RejoinRun run) {
    return run.events().stream()
        .filter(event -> event.kind() == Kind.VERSION_ENTERED)
        .mapToLong(event -> event.number("version"))
        .max()
        .orElseThrow();
  }

  private static long spilled(RejoinRun run) {
    return run.events().stream()
        .filter(event -> event.kind() == Kind.USAGE)
        .mapToLong(event -> event.number("spilled_bytes"))
        .max()
        .orElseThrow();
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void a_kill_is_survived_when_the_logs_find_no_room_in_memory() throws Exception {
    survivesAKill(Variation.SPILLING);
  }

  /** The settings have to show an effect, too. */
  private static void survivesAKill(Variation variation) throws Exception {
    FaultsIT.check(
        Recipe.BINARY,
        variation,
        new FaultCase(
            "killed with " + variation,
            WORKERS,
            1,
            (run, calm) -> run.fault(Fault.of(1).version(4, 20_000).kill())));
  }

  @Test
  void a_kill_is_survived_with_the_input_in_the_checkpoint_directory() throws Exception {
    SparkSession spark = spark();
    spark
        .sparkContext()
        .setCheckpointDir(Sessions.cluster().work().folder("checkpoints").toString());
    survivesAKill("spark.rejoin.input", "checkpoint", Recipe.BINARY.data(spark, WORKERS));
  }

  @Test
  void a_kill_is_survived_when_the_source_is_read_again() throws Exception {
    SparkSession spark = spark();
    String folder = Sessions.cluster().work().folder("source").resolve("rows").toString();
    Recipe.BINARY
        .data(spark, WORKERS)
        .select("label", "features")
        .repartition(WORKERS)
        .write()
        .mode("overwrite")
        .parquet(folder);
    survivesAKill("spark.rejoin.input", "reread", spark.read().parquet(folder));
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void with_dynamic_allocation_the_fit_asks_for_executors_and_waits_for_them() throws Exception {
    String expected = calm(spark(), Recipe.BINARY.data(spark(), WORKERS));
    SparkSession spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.dynamicAllocation.enabled", "true",
                "spark.dynamicAllocation.shuffleTracking.enabled", "true",
                "spark.dynamicAllocation.initialExecutors", "1",
                "spark.dynamicAllocation.minExecutors", "1",
                "spark.dynamicAllocation.maxExecutors", "4"));
    Executors.await(spark, 1);
    assertTrue(Executors.present(spark) < WORKERS, "the executors are there already");
    RejoinRun run = run(spark).fault(Fault.of(1).version(4, 20_000).kill());
    Outcome outcome = train("dynamic allocation", run);
    assertNull(outcome.trouble());
    assertEquals(expected, outcome.digest());
  }

  @Test
  void a_task_that_is_killed_while_it_waits_for_the_others_ends_at_once_and_rejoins()
      throws Exception {
    // Rank 2 is frozen while it holds its slot, so the others wait in their joins.
    isKilledWhileItWaitsFor(Fault.of(2).joined());
  }

  @Test
  void a_task_that_is_killed_in_a_call_of_xgboosts_collective_ends_at_once_and_rejoins()
      throws Exception {
    // Rank 2 is frozen in a round, so the others wait in a call of that round or of the next one.
    isKilledWhileItWaitsFor(Fault.of(2).version(4, 5_000));
  }

  /** Rank 1's task is killed there. Only when it has ended, rank 2, frozen, may go on. */
  private static void isKilledWhileItWaitsFor(Fault frozen) throws Exception {
    SparkSession spark = spark();
    String expected = calm(spark, Recipe.BINARY.data(spark, WORKERS));
    RejoinRun run = run(spark).setting("spark.rejoin.lost.after", "240s").fault(frozen.stop());
    Map<String, Long> processes = new ConcurrentHashMap<>();
    Map<Integer, String> executors = new ConcurrentHashMap<>();
    AtomicReference<String> ended = new AtomicReference<>();
    GangTasks tasks =
        new GangTasks(
            reason -> {
              ended.set(reason);
              Processes.signal(processes.get(executors.get(2)), "CONT");
            });
    run.listen(
        event -> {
          remember(event, processes, executors);
          if (run.fired() == 1 && executors.keySet().containsAll(List.of(1, 2))) {
            tasks.kill(spark);
          }
        });
    spark.sparkContext().addSparkListener(tasks);
    try {
      assertEquals(expected, train("killed, waiting", run).digest(), "events: " + run.events());
    } finally {
      spark.sparkContext().removeSparkListener(tasks);
    }
    assertTrue(ended.get().contains("killed by the test"), "rank 1's task ended: " + ended.get());
    assertEquals(1, run.fired());
    assertEquals(1, restarts(run), "events: " + run.events());
  }

  private static void remember(
      TrainingEvent event, Map<String, Long> processes, Map<Integer, String> executors) {
    if (event.kind() == Kind.AGENT_JOINED) {
      processes.put(event.text("executor"), event.number("pid"));
    } else if (event.kind() == Kind.RANK_JOINED) {
      executors.putIfAbsent(event.rank().getAsInt(), event.text("executor"));
    }
  }

  /** Kills the gang's first task of rank 1 on demand, and reports when it has ended. */
  private static final class GangTasks extends SparkListener {
    private static final String GANG = "GangRdd";
    private final Consumer<String> ended;
    private int stage = -1;
    private long first = -1;
    private SparkSession wanted;

    GangTasks(Consumer<String> ended) {
      this.ended = ended;
    }

    /**
     * Kills it now, or as soon as Spark has reported its start: its bus may be later than Rejoin's
     * events.
     */
    synchronized void kill(SparkSession spark) {
      if (wanted == null) {
        wanted = spark;
        killIfKnown();
      }
    }

    private void killIfKnown() {
      if (wanted != null && first >= 0) {
        if (!wanted.sparkContext().killTaskAttempt(first, true, "killed by the test")) {
          ended.accept("Spark doesn't run task " + first);
        }
      }
    }

    @Override
    public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
      StageInfo info = event.stageInfo();
      if (stage < 0 && info.rddInfos().exists(rdd -> rdd.name().equals(GANG))) {
        stage = info.stageId();
      }
    }

    @Override
    public synchronized void onTaskStart(SparkListenerTaskStart event) {
      if (event.stageId() == stage && event.taskInfo().index() == 1 && first < 0) {
        first = event.taskInfo().taskId();
        killIfKnown();
      }
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
      if (event.taskInfo().taskId() == first()) {
        ended.accept(event.reason().toString());
      }
    }

    private synchronized long first() {
      return first;
    }
  }
}
