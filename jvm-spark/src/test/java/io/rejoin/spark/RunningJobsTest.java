package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import io.rejoin.EventsForTests;
import io.rejoin.JobId;
import io.rejoin.spark.RunningJobs.RunningJob;
import io.rejoin.xgboost.CheckpointRhythm;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostVersion;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class RunningJobsTest {
  private static SparkSession session;

  private final RunningJobs jobs = new RunningJobs();
  private final RejoinMetrics metrics = new RejoinMetrics(jobs);

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,3]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private RunningJob begin(int ranks, int rounds) {
    return jobs.begin(session.sparkContext(), JobId.random(), ranks, rounds, 500 * ranks);
  }

  private static void joined(RunningJob job, int rank) {
    job.accept(EventsForTests.event("RankJoined", "rank", "" + rank));
  }

  private static void entered(RunningJob job, int rank, int version) {
    job.accept(
        EventsForTests.event(
            "VersionEntered",
            "rank",
            "" + rank,
            "lineage",
            "0",
            "version",
            "" + version,
            "round",
            "" + 10 * version));
  }

  private static void usage(RunningJob job, long log, long spilled, long checkpoint) {
    job.accept(
        EventsForTests.event(
            "Usage",
            "agent",
            "1",
            "log_bytes",
            "" + log,
            "spilled_bytes",
            "" + spilled,
            "checkpoint_bytes",
            "" + checkpoint));
  }

  private void shows(String name, long value) {
    Gauge<?> gauge = metrics.metricRegistry().getGauges().get(name);
    assertEquals(value, gauge.getValue(), name);
  }

  @Test
  void metrics_of_jobs_that_run_at_the_same_time_are_summed_up_and_the_slowest_is_shown() {
    RunningJob one = begin(3, 100);
    RunningJob other = begin(2, 100);
    for (int rank = 0; rank < 3; rank++) {
      joined(one, rank);
    }
    joined(other, 0);
    entered(one, 0, 5);
    entered(other, 0, 2);
    one.accept(EventsForTests.rankLost(1, 1));
    usage(one, 10, 20, 30);
    usage(other, 1, 2, 3);
    shows("jobs.running", 2);
    shows("ranks.world", 5);
    shows("ranks.there", 3);
    shows("version", 2);
    shows("round", 20);
    shows("deaths", 1);
    shows("recoveries", 0);
    shows("log.bytes", 11);
    shows("spilled.bytes", 22);
    shows("checkpoint.bytes", 33);
    shows("page.bytes", 2500);

    joined(one, 1);
    one.accept(EventsForTests.event("CaughtUp", "rank", "1", "rounds_again", "4"));
    shows("ranks.there", 4);
    shows("recoveries", 1);
    shows("rounds.again", 4);
  }

  @Test
  void what_a_job_has_cost_is_kept_when_it_is_over_and_what_it_held_is_not() {
    RunningJob one = begin(3, 100);
    joined(one, 1);
    one.accept(EventsForTests.rankLost(1, 1));
    usage(one, 10, 20, 30);
    one.close();
    shows("jobs.failed", 1);
    RunningJob next = begin(2, 100);
    next.accept(EventsForTests.rankLost(0, 1));
    next.accept(EventsForTests.event("CaughtUp", "rank", "0", "rounds_again", "4"));
    next.accept(EventsForTests.event("JobEnded", "digest", "", "deaths", "1"));
    next.close();
    shows("jobs.running", 0);
    shows("jobs.ended", 1);
    shows("jobs.failed", 1);
    shows("deaths", 2);
    shows("recoveries", 1);
    shows("rounds.again", 4);
    for (String none : new String[] {"ranks.world", "ranks.there", "version", "page.bytes"}) {
      shows(none, 0);
    }
    shows("log.bytes", 0);
  }

  @Test
  void people_are_shown_the_rounds_of_xgboost_and_the_versions_of_a_function() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(XgboostVersion.loaded(), 1, 0);
    XgboostProgram program = new XgboostProgram(new TrainingSpec(3, 100, Map.of(), rhythm), null);
    RunningJob xgboost = begin(3, program.rounds());
    RunningJob function =
        begin(2, new FunctionProgram<Integer, Integer>((ranks, rows) -> 1, 2, null).rounds());
    joined(xgboost, 0);
    entered(xgboost, 0, 2);
    entered(function, 0, 3);
    xgboost.accept(EventsForTests.rankLost(1, 1));
    String line = JobProgress.line(jobs.progress(), 140);
    assertTrue(line.contains(" 20/100 rounds, 1/3 ranks, 1 death]"), line);
    assertTrue(line.contains(" version 3, 0/2 ranks]"), line);
  }

  @Test
  void an_application_has_its_metrics_once_however_many_jobs_it_runs() {
    SparkContext context = session.sparkContext();
    RunningJobs of = RunningJobs.of(context);
    of.begin(context, JobId.random(), 2, 0, 0).close();
    assertEquals(of, RunningJobs.of(context));
    assertEquals(1, SparkEnv.get().metricsSystem().getSourcesByName("rejoin").size());
  }

  @Test
  void the_guide_names_each_metric_and_no_other() throws IOException {
    Path guide = Path.of("docs", "spark.md");
    String text = Files.readString(Files.exists(guide) ? guide : Path.of("..").resolve(guide));
    int begin = text.indexOf("| metric |");
    assertTrue(begin > 0, "the guide has no table of metrics");
    Matcher row =
        Pattern.compile("\n\\| `rejoin\\.([a-z.]+)` \\|")
            .matcher(text.substring(begin, text.indexOf("\n\n", begin)));
    Set<String> named = new LinkedHashSet<>();
    while (row.find()) {
      named.add(row.group(1));
    }
    assertEquals(metrics.metricRegistry().getNames(), named);
  }
}
