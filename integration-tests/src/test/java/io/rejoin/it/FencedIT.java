package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * An executor that was only frozen wakes when its rank works elsewhere. Spark's Worker, which would
 * end it meanwhile, is frozen, too; and the others wait in a later round until it was heard.
 */
@DisplayName("an executor that was declared lost and wakes")
class FencedIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int WORKERS = 3;
  private static final int VICTIM = 1;
  private static final int FROZEN = 7;

  private static final String GONE = "its executor has ended";

  /** Before this round the others wait for the one that wakes. */
  private static final int GATE = 14;

  @TempDir Path temporary;

  @Test
  void is_refused_with_all_that_it_says_and_the_model_is_that_of_the_others() throws Exception {
    FileGate open = new FileGate(temporary);
    open.open(GATE);
    Path log = temporary.resolve("executors.log");
    RejoinRun calm = run(open, log);
    String expected =
        Deadline.within(LIMIT, "undisturbed", Sessions.cluster(), calm::train).digest();

    FileGate gate = new FileGate(Files.createDirectory(temporary.resolve("shut")));
    RejoinRun run =
        run(gate, log)
            .setting("spark.rejoin.spares", "1")
            .fault(Fault.of(VICTIM).version(FROZEN, 1_000).stop());
    long worker = Sessions.cluster().workerProcess().pid();
    run.listen(
        event -> {
          if (event.kind() == Kind.FAULT_FIRED) {
            Processes.signal(worker, "STOP");
          }
        });
    new FaultCase.ByEvent(run).when(event -> isOf(event, Kind.CAUGHT_UP, 1), VICTIM, "CONT");
    CompletableFuture<Long> victim = new CompletableFuture<>();
    Map<String, Long> processOf = new HashMap<>();
    run.listen(
        event -> {
          if (event.kind() == Kind.AGENT_JOINED) {
            processOf.put(event.text("executor"), event.number("pid"));
          } else if (isOf(event, Kind.RANK_JOINED, 0)) {
            victim.complete(processOf.get(event.text("executor")));
          }
        });
    // Spark has given it up and takes nothing from it: what its task ends with is in its own log.
    FutureTask<String> ended = new FutureTask<>(() -> openWhenRefused(log, victim.get(), gate));
    Thread watch = new Thread(ended, "what the one that wakes says");
    watch.setDaemon(true);
    watch.start();
    Outcome outcome;
    try {
      outcome = Deadline.within(LIMIT, "one wakes", Sessions.cluster(), run::train);
    } finally {
      Processes.signal(worker, "CONT");
      ended.cancel(true);
    }
    assertNull(outcome.trouble(), () -> "events: " + run.events());
    assertTrue(run.signals(), () -> "it was not woken: " + run.events());
    // Should it not have been refused, the others would have waited for it.
    assertTrue(
        ended.get().equals(GONE) || ended.get().matches(".*rank " + VICTIM + ".*declared lost.*"),
        ended.get());
    assertEquals(expected, outcome.digest(), () -> "events: " + run.events());
    List<TrainingEvent> events = run.events();
    assertEquals(List.of(0L, 1L), incarnations(events, Kind.RANK_JOINED), () -> "" + events);
    assertEquals(List.of(0L), incarnations(events, Kind.RANK_LOST), () -> "" + events);
    assertEquals(List.of(1L), incarnations(events, Kind.RANK_FINISHED), () -> "" + events);
    // Nothing that it says of its rounds counts any more.
    int lost = indexOf(events, event -> isOf(event, Kind.RANK_LOST, 0));
    List<TrainingEvent> after = events.subList(lost, events.size());
    assertEquals(-1, indexOf(after, event -> isOf(event, Kind.VERSION_ENTERED, 0)), "" + after);
  }

  /**
   * Opens the gate for the others and returns the line with which its task ends; {@link #GONE}
   * where the executor was quicker to do what Spark had told it meanwhile, to end.
   */
  private static String openWhenRefused(Path log, long process, FileGate gate)
      throws IOException, InterruptedException {
    while (true) {
      // Its Worker, which is frozen, hasn't buried it then.
      boolean isGone =
          Sessions.cluster().processes().stream().noneMatch(one -> one.pid() == process);
      if (Files.exists(log)) {
        for (String line : Files.readAllLines(log)) {
          if (line.contains("FENCED")) {
            gate.open(GATE);
            return line;
          }
        }
      }
      if (isGone) {
        gate.open(GATE);
        return GONE;
      }
      Thread.sleep(20); // Between two looks; who waits for this has a limit.
    }
  }

  private static RejoinRun run(FileGate gate, Path log) {
    Map<String, String> settings =
        Map.of(
            Sessions.EXECUTOR_OPTIONS,
            Sessions.executorOptions() + " -Drejoin.it.log=" + log,
            // Spark, too, refuses the one that wakes, with its next heartbeat: then it ends itself.
            "spark.executor.heartbeatInterval",
            "100s",
            "spark.network.timeout",
            "300s");
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE, settings);
    XGBoostClassifier stock =
        (XGBoostClassifier) Recipe.BINARY.estimator(spark, WORKERS, FaultCase.ROUNDS);
    stock.setCustomObj(new GatedObjective(gate, GATE));
    return Calm.run(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS).estimator(stock);
  }

  private static List<Long> incarnations(List<TrainingEvent> events, Kind kind) {
    return events.stream()
        .filter(event -> event.kind() == kind && event.number("rank") == VICTIM)
        .map(event -> event.number("incarnation"))
        .collect(Collectors.toList());
  }

  private static int indexOf(List<TrainingEvent> events, Predicate<TrainingEvent> which) {
    return events.stream().filter(which).findFirst().map(events::indexOf).orElse(-1);
  }

  private static boolean isOf(TrainingEvent event, Kind kind, int incarnation) {
    return event.kind() == kind
        && event.number("rank") == VICTIM
        && event.number("incarnation") == incarnation;
  }
}
