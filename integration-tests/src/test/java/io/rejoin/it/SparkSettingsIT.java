package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException.Code;
import io.rejoin.TrainingEvent.Kind;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerBlockUpdated;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** What a cluster's administrator sets, and a training has to live with. */
@DisplayName("settings of Spark's own")
class SparkSettingsIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int WORKERS = 3;
  private static final int ROUNDS = 10;
  private static final Map<String, String> EXCLUSION =
      Map.of("spark.excludeOnFailure.enabled", "true", "spark.task.maxFailures", "5");

  private static final String SINK = "spark.metrics.conf.*.sink.prometheusServlet.";
  private static final Pattern METRIC =
      Pattern.compile("metrics_\\w+_driver_rejoin_(\\w+)_Value\\{[^}]*} (\\d+)");

  private static final Pattern DOCUMENTED =
      Pattern.compile("^\\| `rejoin\\.([a-z.]+)` \\|", Pattern.MULTILINE);

  private static String calm;

  private static RejoinRun run(SparkSession spark, int workers) {
    return new RejoinRun(spark, Recipe.BINARY, workers, ROUNDS)
        .setting("spark.rejoin.checkpoint.rounds", "1");
  }

  private static Outcome train(String what, RejoinRun run) throws Exception {
    return Deadline.within(LIMIT, what, Sessions.cluster(), run::train);
  }

  /** The digest of the undisturbed training, at the usual settings. */
  private static synchronized String calm() throws Exception {
    if (calm == null) {
      RejoinRun run = run(Sessions.of(Sessions.Shape.SINGLE), WORKERS);
      calm = train("undisturbed", run).digest();
    }
    return calm;
  }

  /** Where the incarnations of a rank ran, in their order. */
  private static List<String> executors(RejoinRun run, int rank) {
    return run.events().stream()
        .filter(event -> event.kind() == Kind.RANK_JOINED && event.number("rank") == rank)
        .map(event -> event.text("executor"))
        .collect(Collectors.toList());
  }

  @Test
  void a_driver_that_is_reached_by_another_address_than_it_listens_at_has_its_tracker_there_too()
      throws Exception {
    String expected = calm();
    String inside = "127.0.0.2";
    String outside = "127.0.0.3";
    try (PortForward scheduler = new PortForward(outside, inside);
        PortForward blocks = new PortForward(outside, inside);
        PortForward tracker = new PortForward(outside, inside)) {
      SparkSession spark =
          Sessions.of(
              Sessions.Shape.SINGLE,
              Map.of(
                  "spark.driver.host",
                  outside,
                  "spark.driver.bindAddress",
                  inside,
                  "spark.driver.port",
                  Integer.toString(scheduler.port()),
                  "spark.driver.blockManager.port",
                  Integer.toString(blocks.port())));
      RejoinRun run =
          run(spark, WORKERS)
              .setting("spark.rejoin.tracker.ports", tracker.port() + "-" + tracker.port())
              .fault(Fault.of(1).version(4, 20_000).kill());
      Outcome outcome = train("behind NAT", run);
      assertNull(outcome.trouble());
      assertEquals(expected, outcome.digest());
      assertTrue(tracker.connections() >= WORKERS + 1, "agents: " + tracker.connections());
      Sessions.free();
    }
  }

  /** All executors are on one host here, and hosts would be excluded, too. */
  private static SparkSession excludingExecutors() {
    Map<String, String> settings = new HashMap<>(EXCLUSION);
    settings.put("spark.excludeOnFailure.task.maxTaskAttemptsPerNode", "4");
    return Sessions.of(Sessions.Shape.SINGLE, settings);
  }

  @Test
  void an_executor_on_which_a_rank_has_failed_is_not_used_for_it_again_where_exclusion_is_on()
      throws Exception {
    String expected = calm();
    RejoinRun run =
        run(excludingExecutors(), WORKERS).fault(Fault.of(1).version(3, 20_000).throwError());
    Outcome outcome = train("excluded", run);
    assertNull(outcome.trouble());
    assertEquals(expected, outcome.digest(), "events: " + run.events());
    List<String> used = executors(run, 1);
    assertEquals(2, used.size(), used.toString());
    assertEquals(2, new HashSet<>(used).size(), "an excluded executor was used: " + used);
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void a_rank_that_has_failed_on_as_many_executors_as_it_may_use_ends_the_job_with_the_settings()
      throws Exception {
    // The second failure leaves the slots of the other ranks alone.
    RejoinRun again =
        run(excludingExecutors(), WORKERS)
            .setting("spark.rejoin.members.timeout", "15s")
            .fault(Fault.of(1).version(3, 20_000).throwError())
            .fault(Fault.of(1).incarnation(1).version(5, 20_000).throwError());
    Refusal.withAtMost(1, again)
        .says(
            Code.MEMBERS_MISSING,
            "spark.rejoin.members.timeout",
            "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor");
    assertEquals(2, executors(again, 1).size(), "events: " + again.events());
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void a_rank_for_which_exclusion_leaves_no_executor_ends_the_job_with_the_settings()
      throws Exception {
    Map<String, String> settings = new HashMap<>(EXCLUSION);
    settings.put("spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout", "1s");
    RejoinRun run =
        run(Sessions.of(Sessions.Shape.SINGLE, settings), WORKERS)
            .fault(Fault.of(1).version(3, 20_000).throwError())
            .fault(Fault.of(1).incarnation(1).version(5, 20_000).throwError());
    Refusal.withAtMost(1, run)
        .says(
            Code.UNRECOVERABLE,
            "no executor may take the rank again",
            "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor",
            "task 1, attempt 0.1");
  }

  @Test
  void dynamic_allocation_takes_idle_executors_away_but_none_with_a_copy_or_a_rank()
      throws Exception {
    SparkSession spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.dynamicAllocation.enabled", "true",
                "spark.dynamicAllocation.shuffleTracking.enabled", "true",
                "spark.dynamicAllocation.executorIdleTimeout", "2s",
                "spark.dynamicAllocation.minExecutors", "2",
                "spark.dynamicAllocation.maxExecutors", "4"));
    Executors.await(spark, 2);
    Allocation allocation = new Allocation();
    Path go = Sessions.cluster().work().file("go");
    RejoinRun run =
        run(spark, 1)
            .setting("spark.rejoin.lost.after", "240s")
            .fault(Fault.of(0).version(4, 0).stop());
    Map<String, Long> processes = new ConcurrentHashMap<>();
    Set<String> holders = ConcurrentHashMap.newKeySet();
    Set<String> taken = ConcurrentHashMap.newKeySet();
    run.listen(
        event -> {
          if (event.kind() == Kind.AGENT_JOINED) {
            processes.put(event.text("executor"), event.number("pid"));
          } else if (event.kind() == Kind.FAULT_FIRED) {
            // The rank is frozen. The other holder of its input and two more executors, which come
            // for it, get something to do, and are idle after it.
            holders.addAll(allocation.holders);
            fillAllSlots(spark, go);
            allocation.awaitRemovals(2);
            taken.addAll(allocation.removed);
            Processes.signal(processes.values().iterator().next(), "CONT");
          }
        });
    spark.sparkContext().addSparkListener(allocation);
    try {
      assertNull(train("idle executors", run).trouble());
    } finally {
      spark.sparkContext().removeSparkListener(allocation);
      Files.deleteIfExists(go);
    }
    assertEquals(2, holders.size(), "executors with a copy: " + holders);
    assertEquals(2, taken.size(), "executors that were taken away: " + taken);
    holders.addAll(executors(run, 0));
    assertTrue(holders.stream().noneMatch(taken::contains), holders + " in use, gone: " + taken);
    assertEquals(1, executors(run, 0).size(), "events: " + run.events());
    Sessions.free();
  }

  /** A job of which a task runs on every executor but the one of the frozen rank at once. */
  private static void fillAllSlots(SparkSession spark, Path go) {
    String file = go.toString();
    Thread all =
        new Thread(
            () -> {
              Executors.await(spark, 4);
              try {
                Files.createFile(go);
              } catch (java.io.IOException cannot) {
                throw new java.io.UncheckedIOException(cannot);
              }
            },
            "go");
    all.setDaemon(true);
    all.start();
    new JavaSparkContext(spark.sparkContext())
        .parallelize(List.of(1, 2, 3), 3)
        .foreach(
            each -> {
              while (!Files.exists(Path.of(file))) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
              }
            });
  }

  /** Which executors have had copies of an input, and which were taken away. */
  private static final class Allocation extends SparkListener {
    private final Set<String> holders = ConcurrentHashMap.newKeySet();
    private final Set<String> removed = ConcurrentHashMap.newKeySet();

    @Override
    public void onBlockUpdated(SparkListenerBlockUpdated event) {
      if (event.blockUpdatedInfo().blockId().isRDD()
          && event.blockUpdatedInfo().storageLevel().isValid()) {
        holders.add(event.blockUpdatedInfo().blockManagerId().executorId());
      }
    }

    @Override
    public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved event) {
      removed.add(event.executorId());
      notifyAll();
    }

    /** Waits until so many are gone. */
    synchronized void awaitRemovals(int count) {
      long deadline = System.nanoTime() + LIMIT.toNanos();
      while (removed.size() < count && System.nanoTime() < deadline) {
        try {
          wait(1_000);
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          return;
        }
      }
    }
  }

  /** Prometheus reads the driver's metrics while a rank is away, and after the training. */
  @Test
  void ranks_of_several_cpus_train_with_as_many_threads_through_a_kill_that_prometheus_sees()
      throws Exception {
    Map<String, String> settings = new HashMap<>();
    settings.put("spark.task.cpus", "2");
    settings.put("spark.ui.enabled", "true");
    settings.put("spark.ui.port", "0");
    settings.put(SINK + "class", "org.apache.spark.metrics.sink.PrometheusServlet");
    settings.put(SINK + "path", "/metrics/prometheus");
    SparkSession spark = Sessions.of(Sessions.Shape.PAIRS, settings);
    String expected = train("two threads", twoThreads(spark)).digest();
    Map<String, Long> away = new ConcurrentHashMap<>();
    RejoinRun run = twoThreads(spark).fault(Fault.of(1).version(4, 20_000).kill());
    run.listen(
        event -> {
          if (event.kind() == Kind.RANK_LOST) {
            away.putAll(metrics(spark));
          }
        });
    try (Logs logs = Logs.collectAll()) {
      Outcome outcome = train("two threads, killed", run);
      assertNull(outcome.trouble());
      assertEquals(expected, outcome.digest());
      List<String> end = logs.awaited(" ended at version ", 1);
      String wanted =
          ".* ended at version 10 \\(round 10\\) after [0-9.]+ s and 1 deaths, for which training"
              + " waited [0-9.]+ s and computed [0-9]+ rounds again, with model [0-9a-f]{32}; .*";
      assertTrue(end.size() == 1 && end.get(0).matches(wanted), end.toString());
    }
    assertEquals(2, executors(run, 1).size(), "events: " + run.events());
    assertEquals(
        "running 1, world 2, there 1, ended 1, failed 0, deaths 1, recoveries 0", brief(away));
    assertEquals(away.get("version"), away.get("round"), away.toString());
    assertTrue(away.get("version") > 0 && away.get("page.bytes") > 0, away.toString());
    Map<String, Long> after = metrics(spark);
    assertEquals(
        "running 0, world 0, there 0, ended 2, failed 0, deaths 1, recoveries 1", brief(after));
    assertEquals(documented(), Set.copyOf(after.keySet()));
    assertTrue(after.get("lost.millis") > 0 && after.get("page.bytes") == 0, after.toString());
    Refusal.of(
            new RejoinRun(spark, Recipe.BINARY, 3, 4).setting("spark.rejoin.slots.timeout", "1s"))
        .says(Code.BAD_ARGUMENT, "3 workers", "2 slots", "spark.task.cpus");
  }

  private static String brief(Map<String, Long> metrics) {
    return Stream.of(
            "jobs.running",
            "ranks.world",
            "ranks.there",
            "jobs.ended",
            "jobs.failed",
            "deaths",
            "recoveries")
        .map(name -> name.replaceAll(".*[.]", "") + " " + metrics.get(name))
        .collect(Collectors.joining(", "));
  }

  /** The metrics that the guide has in its table. */
  private static Set<String> documented() throws IOException {
    return DOCUMENTED
        .matcher(Files.readString(Path.of("docs/spark.md")))
        .results()
        .map(row -> row.group(1))
        .collect(Collectors.toSet());
  }

  /** Rejoin's metrics by name, as Prometheus gets them of the driver. */
  private static Map<String, Long> metrics(SparkSession spark) {
    URI address = URI.create(spark.sparkContext().uiWebUrl().get() + "/metrics/prometheus");
    try (InputStream in = address.toURL().openStream()) {
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      Map<String, Long> found = new HashMap<>();
      METRIC
          .matcher(text)
          .results()
          .forEach(one -> found.put(one.group(1).replace('_', '.'), Long.valueOf(one.group(2))));
      return found;
    } catch (IOException cannot) {
      throw new IllegalStateException("cannot read " + address, cannot);
    }
  }

  private static RejoinRun twoThreads(SparkSession spark) {
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(spark, 2, ROUNDS);
    stock.setNthread(2);
    return run(spark, 2).estimator(stock);
  }
}
