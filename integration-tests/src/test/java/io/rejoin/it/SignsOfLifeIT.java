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
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What a lost executor is told by, and what it isn't. */
@DisplayName("signs of life")
class SignsOfLifeIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int SECONDS = 8;
  private static final Pattern PAUSE =
      Pattern.compile("Pause Full \\(System.gc\\(\\)\\).* ([0-9.]+)ms");

  private static RejoinRun run(SparkSession spark, long seconds) {
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(spark, 3, 10);
    stock.setObjective("binary:logistic");
    stock.setCustomObj(new CollectingObjective(seconds));
    return new RejoinRun(spark, Recipe.BINARY, 3, 10)
        .estimator(stock)
        .setting("spark.rejoin.checkpoint.rounds", "1");
  }

  private static List<TrainingEvent> lost(RejoinRun run) {
    return run.events().stream()
        .filter(event -> event.kind() == Kind.RANK_LOST)
        .collect(Collectors.toList());
  }

  @Test
  void an_executor_that_collects_garbage_for_eight_seconds_is_not_lost() throws Exception {
    Path logs = Sessions.cluster().work().folder("gc");
    String options = Sessions.cluster().configuration().get("spark.executor.extraJavaOptions");
    SparkSession spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.executor.memory",
                "2g",
                "spark.executor.extraJavaOptions",
                options + " -Xlog:gc:file=" + logs + "/%p.log"));
    RejoinRun calm = run(spark, 0);
    String expected = Deadline.within(LIMIT, "calm", Sessions.cluster(), calm::train).digest();
    RejoinRun run = run(spark, SECONDS);
    String digest = Deadline.within(LIMIT, "garbage", Sessions.cluster(), run::train).digest();
    List<Double> pauses = pauses(logs);
    double all = pauses.stream().mapToDouble(Double::doubleValue).sum();
    assertTrue(all >= SECONDS * 1000, "collected for " + pauses + " ms");
    double longest = pauses.stream().mapToDouble(Double::doubleValue).max().orElse(0);
    assertTrue(longest >= CollectingObjective.PAUSE_MILLIS, "collected for " + pauses + " ms");
    assertEquals(List.of(), lost(run));
    assertEquals(expected, digest);
    long told = millis(run, Kind.AGENT_SLOW);
    long paused = millis(run, Kind.AGENT_RUNS);
    assertTrue(told >= 1_000 && told <= paused, "slow after " + told + " of " + paused + " ms");
    assertTrue(paused >= longest / 2, paused + " ms of " + longest);
  }

  /** The longest silence that an event tells of. */
  private static long millis(RejoinRun run, Kind kind) {
    return run.events().stream()
        .filter(event -> event.kind() == kind)
        .mapToLong(event -> event.number("silent_millis"))
        .max()
        .orElse(0);
  }

  private static List<Double> pauses(Path logs) throws IOException {
    List<Double> pauses = new ArrayList<>();
    try (Stream<Path> files = Files.list(logs)) {
      for (Path file : files.collect(Collectors.toList())) {
        Matcher pause = PAUSE.matcher(Files.readString(file));
        while (pause.find()) {
          pauses.add(Double.valueOf(pause.group(1)));
        }
      }
    }
    return pauses;
  }

  @Test
  void a_dead_executor_is_known_by_its_connection_and_not_by_its_silence() throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run =
        new RejoinRun(spark, Recipe.BINARY, 3, 10)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            // Longer than the limit of the test: who waits for it is found out.
            .setting("spark.rejoin.lost.after", "20min")
            .fault(Fault.of(1).version(4, 20_000).kill());
    Outcome outcome = Deadline.within(LIMIT, "a dead one", Sessions.cluster(), run::train);
    assertNull(outcome.trouble());
    assertEquals(1, lost(run).size(), "events: " + run.events());
    String reason = lost(run).get(0).text("reason");
    assertTrue(reason.contains("connection ended"), reason);
  }
}
