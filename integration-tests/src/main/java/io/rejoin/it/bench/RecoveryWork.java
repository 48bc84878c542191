package io.rejoin.it.bench;

import io.rejoin.NativeLibrary;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.Executors;
import io.rejoin.it.Outcome;
import io.rejoin.it.Recipe;
import io.rejoin.it.RejoinRun;
import io.rejoin.it.RunFacts;
import io.rejoin.it.Strike;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;

/**
 * Trains under one kill with {@code RejoinEstimator}, again and again, and takes each recovery
 * apart. Runs as a Spark driver whose session is set up by system properties.
 */
final class RecoveryWork implements Work {
  private static final long serialVersionUID = 1L;
  private static final Pattern START =
      Pattern.compile(
          "rank [0-9]+ \\(attempt (?!0\\.0\\))[0-9.]+\\) is at version .*: connecting ([0-9]+) ms,"
              + " matrices ([0-9]+) ms, sketch ([0-9]+) ms, model ([0-9]+) ms");

  private final String executorsFolder;
  private final int workers;
  private final int slots;
  private final int rounds;
  private final int rank;
  private final String rule;
  private final int repetitions;

  /** {@code executorsFolder}: where the executors' logs are. */
  RecoveryWork(
      String executorsFolder, int workers, int slots, int rounds, Strike strike, int repetitions) {
    this.executorsFolder = executorsFolder;
    this.workers = workers;
    this.slots = slots;
    this.rounds = rounds;
    this.rank = strike.rank();
    this.rule = strike.rule();
    this.repetitions = repetitions;
  }

  @Override
  public Serializable run() throws IOException {
    SparkSession spark = SparkSession.builder().appName("rejoin bench").getOrCreate();
    NativeLibrary.logLevel("error");
    try {
      Executors.await(spark, slots);
      train(spark, 2).train();
      ArrayList<LinkedHashMap<String, Double>> all = new ArrayList<>();
      Set<String> seen = new HashSet<>(starts());
      for (int run = 0; run < repetitions; run++) {
        Executors.await(spark, slots);
        Outcome undisturbed = train(spark, rounds).train();
        LinkedHashMap<String, Double> parts = strike(spark);
        parts.put("undisturbed fit", (double) undisturbed.millis());
        for (String line : starts()) {
          Matcher start = START.matcher(line);
          if (seen.add(line) && start.find()) {
            parts.put("  of it: reload (rows and matrix)", Double.valueOf(start.group(2)));
            parts.put("  of it: XGBoost's sketch", Double.valueOf(start.group(3)));
            parts.put("  of it: model load", Double.valueOf(start.group(4)));
          }
        }
        all.add(parts);
      }
      return all;
    } finally {
      spark.stop();
    }
  }

  private RejoinRun train(SparkSession spark, int some) {
    return new RejoinRun(spark, Recipe.BINARY, workers, some)
        .setting("spark.rejoin.checkpoint.rounds", "1")
        .setting("spark.rejoin.log.level", "error");
  }

  private LinkedHashMap<String, Double> strike(SparkSession spark) {
    AtomicLong rescheduled = new AtomicLong();
    RunFacts facts =
        new RunFacts() {
          @Override
          protected void taskStarted(
              int stage, int stageAttempt, int partition, int attempt, String executor) {
            if (stageAttempt + attempt > 0 && partition == rank) {
              rescheduled.compareAndSet(0, System.nanoTime());
            }
          }
        };
    RejoinRun run = train(spark, rounds).fault(rule);
    Outcome outcome = run.train(facts);
    List<TrainingEvent> events = run.events();
    long struck = at(events, Kind.FAULT_FIRED, 0);
    long lost = at(events, Kind.RANK_LOST, 0);
    long joined = at(events, Kind.RANK_JOINED, 1);
    long restored = at(events, Kind.RANK_RESTORED, 1);
    long entered = at(events, Kind.VERSION_ENTERED, 1);
    long caughtUp = at(events, Kind.RANK_CAUGHTUP, 1);
    LinkedHashMap<String, Double> parts = new LinkedHashMap<>();
    parts.put("kill -> training goes on", millis(struck, caughtUp));
    parts.put("  detection", millis(struck, lost));
    parts.put("  rescheduling (Spark)", millis(lost, rescheduled.get()));
    parts.put("  task's start -> seat", millis(rescheduled.get(), joined));
    parts.put("  restore", millis(joined, restored));
    parts.put("  worker connected, reload, sketch, model load", millis(restored, entered));
    parts.put("  replay", millis(entered, caughtUp));
    parts.put("struck fit", (double) outcome.millis());
    return parts;
  }

  private long at(List<TrainingEvent> events, Kind kind, int incarnation) {
    return events.stream()
        .filter(event -> event.kind() == kind && event.rank().orElse(-1) == rank)
        .filter(event -> event.number("incarnation") == incarnation)
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("no event " + kind + " among " + events))
        .atNanos();
  }

  /** Lines of executors' logs that say what the start of a retried task was made of. */
  private List<String> starts() throws IOException {
    List<String> found = new ArrayList<>();
    try (Stream<Path> files = Files.walk(Path.of(executorsFolder))) {
      for (Path file : files.filter(path -> path.endsWith("stderr")).toList()) {
        for (String line : Files.readAllLines(file)) {
          if (START.matcher(line).find()) {
            found.add(file + ": " + line);
          }
        }
      }
    }
    return found;
  }

  private static double millis(long from, long to) {
    return (to - from) / 1e6;
  }

  /** Values of one part over all repetitions, by part. */
  static Map<String, List<Double>> byPart(List<?> repetitions) {
    Map<String, List<Double>> parts = new LinkedHashMap<>();
    for (Object one : repetitions) {
      ((Map<?, ?>) one)
          .forEach(
              (part, value) ->
                  parts
                      .computeIfAbsent((String) part, name -> new ArrayList<>())
                      .add((Double) value));
    }
    return parts;
  }
}
