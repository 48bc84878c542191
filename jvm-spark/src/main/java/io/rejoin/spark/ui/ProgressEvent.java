package io.rejoin.spark.ui;

import io.rejoin.TrainingEvent;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * How far every rank is and what is held, as one event: Spark's event log gets this now and then in
 * place of the many that say it. The field {@code rank.3} is {@code LINEAGE VERSION ROUND SEEN},
 * the field {@code LOGS} what all hold of that and what one has held at most, and {@code
 * evaluation} the metrics of the newest round.
 */
final class ProgressEvent {
  private static final String RANK = "rank.";
  private static final String EVALUATION = "evaluation";

  private final TrainingEvent event;

  ProgressEvent(TrainingEvent event) {
    this.event = event;
  }

  /** Of a job as it is now. */
  static TrainingEvent of(JobView job) {
    Map<String, String> fields = new LinkedHashMap<>();
    for (RankView rank : job.ranks()) {
      if (rank.lastSeen() > 0) {
        fields.put(
            RANK + rank.rank(),
            words(rank.lineage(), rank.version(), rank.round(), rank.lastSeen()));
      }
    }
    for (Memory.Held each : Memory.Held.values()) {
      fields.put(each.name(), words(job.memory().now(each), job.memory().mostOfOne(each)));
    }
    if (!job.evaluation().isEmpty()) {
      fields.put(EVALUATION, job.evaluation());
    }
    return TrainingEvent.recorded(JobView.PROGRESS, fields, nanos(job.newest()));
  }

  private static String words(long... numbers) {
    StringBuilder text = new StringBuilder();
    for (long each : numbers) {
      text.append(text.length() == 0 ? "" : " ").append(each);
    }
    return text.toString();
  }

  /** Brings a job to where it says. */
  void applyTo(JobView job) {
    event.fields().forEach((name, text) -> apply(job, name, text));
  }

  private void apply(JobView job, String name, String text) {
    if (name.equals(EVALUATION)) {
      job.accept(TrainingEvent.recorded("Printed", Map.of("text", text), event.atNanos()));
    } else if (name.startsWith(RANK)) {
      apply(job, job.rank(Integer.parseInt(name.substring(RANK.length()))), text.split(" "));
    } else {
      long[] numbers = numbers(text);
      job.memory().set(Memory.Held.valueOf(name), numbers[0], numbers[1]);
    }
  }

  private static void apply(JobView job, RankView rank, String[] words) {
    long seen = Long.parseLong(words[3]);
    // It may have been lost since: what it said last is no sign of life of another incarnation.
    if (rank.state() == RankState.TRAINING || rank.state() == RankState.REPLAYING) {
      Map<String, String> fields =
          Map.of(
              "rank",
              "" + rank.rank(),
              "lineage",
              words[0],
              "version",
              words[1],
              "round",
              words[2]);
      job.accept(TrainingEvent.recorded("VersionEntered", fields, nanos(seen)));
    }
    rank.seen(seen);
  }

  private static long nanos(long millis) {
    return TimeUnit.MILLISECONDS.toNanos(millis);
  }

  private static long[] numbers(String text) {
    String[] words = text.split(" ");
    long[] numbers = new long[words.length];
    for (int i = 0; i < words.length; i++) {
      numbers[i] = Long.parseLong(words[i]);
    }
    return numbers;
  }
}
