package io.rejoin.spark.ui;

import io.rejoin.TrainingEvent;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** The events of a job as its tracker gives them, at times that a test says, in milliseconds. */
final class JobEvents {
  static final String JOB = "0123456789abcdef0123456789abcdef";

  private final Consumer<TrainingEvent> to;
  private final long zero;

  /** Events for this one, whose times count from {@code zero} on its clock, in nanoseconds. */
  JobEvents(Consumer<TrainingEvent> to, long zero) {
    this.to = to;
    this.zero = zero;
  }

  /** Of a job that a view is made of, which begins at 0. */
  static JobView view(int ranks) {
    return new JobView(JOB, TrainingEvent.recorded(JobView.BEGAN, facts(ranks), 0));
  }

  static JobEvents of(JobView view) {
    return new JobEvents(view::accept, 0);
  }

  static Map<String, String> facts(int ranks) {
    Map<String, String> facts = new LinkedHashMap<>();
    facts.put("ranks", "" + ranks);
    facts.put("spares", "0");
    facts.put("rounds", "100");
    facts.put("page_bytes", "1000000");
    facts.put("deaths_allowed", "3");
    facts.put("deaths_setting", "spark.task.maxFailures");
    facts.put("at_once", "1");
    facts.put("at_once_setting", "spark.rejoin.input.replicas");
    facts.put("log_memory", "268435456");
    facts.put("log_disk", "17179869184");
    return facts;
  }

  JobEvents event(long at, String name, String... words) {
    Map<String, String> fields = new LinkedHashMap<>();
    for (int i = 0; i < words.length; i += 2) {
      fields.put(words[i], words[i + 1]);
    }
    to.accept(TrainingEvent.recorded(name, fields, zero + TimeUnit.MILLISECONDS.toNanos(at)));
    return this;
  }

  JobEvents joined(long at, int rank, int incarnation, String executor) {
    event(at, "AgentJoined", "agent", "a" + executor, "executor", executor, "host", "h" + executor);
    return event(
        at, "RankJoined", "rank", "" + rank, "incarnation", "" + incarnation, "executor", executor);
  }

  JobEvents entered(long at, int rank, int version) {
    return event(
        at,
        "VersionEntered",
        "rank",
        "" + rank,
        "lineage",
        "0",
        "version",
        "" + version,
        "round",
        "" + 5 * version);
  }

  JobEvents lost(long at, int rank, String executor, long silent, int deaths) {
    return event(
        at,
        "RankLost",
        "rank",
        "" + rank,
        "executor",
        executor,
        "reason",
        "exit 137",
        "silent_millis",
        "" + silent,
        "deaths",
        "" + deaths);
  }

  JobEvents restored(long at, int rank) {
    return event(at, "Restored", "rank", "" + rank, "bytes", "2048", "source", "host h0");
  }

  JobEvents caughtUp(long at, int rank, int rounds) {
    return event(
        at, "CaughtUp", "rank", "" + rank, "rounds_again", "" + rounds, "replayed_in", "4096");
  }

  JobEvents usage(long at, String executor, long logs) {
    return event(
        at,
        "Usage",
        "agent",
        "a" + executor,
        "log_bytes",
        "" + logs,
        "log_bytes_peak",
        "" + 2 * logs,
        "spilled_bytes",
        "0",
        "checkpoint_bytes",
        "" + logs / 2);
  }

  /** All ranks have joined, rank by rank, on the executor of their number, and are in version 1. */
  JobEvents begun(int ranks) {
    for (int rank = 0; rank < ranks; rank++) {
      joined(500, rank, 0, "" + rank);
    }
    for (int rank = 0; rank < ranks; rank++) {
      entered(1_000, rank, 0);
    }
    for (int rank = 0; rank < ranks; rank++) {
      entered(2_000, rank, 1);
    }
    return this;
  }

  JobEvents ended(long at, int ranks) {
    for (int rank = 0; rank < ranks; rank++) {
      event(at, "RankFinished", "rank", "" + rank);
    }
    return event(at, "JobEnded", "digest", "abcdef");
  }
}
