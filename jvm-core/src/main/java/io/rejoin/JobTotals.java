package io.rejoin;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What people and metrics are shown of a job, summed up from its events: how far it is, which ranks
 * are there, deaths and recoveries, the time that they took, and what the processes hold for ranks
 * that come back. Several jobs may follow each other. Safe to use from several threads.
 */
public final class JobTotals {
  /** As XGBoost prints a round's metrics, in any language: a tab before each. */
  private static final Pattern EVALUATION =
      Pattern.compile("^\\[\\d+](?:\t[^\t\n]+)*\t([^\t\n]+):([^\t\n:]+)$", Pattern.MULTILINE);

  private final Set<Integer> there = new HashSet<>();

  /** Ranks that don't work with the others yet; of each the newest version when it came back. */
  private final Map<Integer, Place> lost = new HashMap<>();

  /** Ranks whose tasks are ended on purpose: they come back as after a death, but it is none. */
  private final Set<Integer> moving = new HashSet<>();

  private final Map<String, TrainingEvent> usage = new HashMap<>();
  private boolean stands;
  private long standsSince;
  private long lostNanos;
  private int deaths;
  private int recoveries;
  private int roundsAgain;
  private Place newest = Place.NONE;
  private long round;
  private String evaluation = "";

  /** A version in its lineage. */
  private static final class Place {
    private static final Place NONE = new Place(-1, -1);

    private final long lineage;
    private final long version;

    private Place(long lineage, long version) {
      this.lineage = lineage;
      this.version = version;
    }

    /** After a rollback the newest version is that of the new lineage, although a lower one. */
    private boolean isBeyond(Place other) {
      return lineage > other.lineage || (lineage == other.lineage && version > other.version);
    }
  }

  /** The next event of the job that is under way. */
  public synchronized void accept(TrainingEvent event) {
    switch (event.kind()) {
      case RANK_JOINED:
        there.add(event.rank().orElseThrow());
        lost.replace(event.rank().orElseThrow(), newest);
        break;
      case RANK_MOVED:
        moving.add(event.rank().orElseThrow());
        break;
      case RANK_LOST:
        if (!moving.remove(event.rank().orElseThrow())) {
          deaths++;
        }
        there.remove(event.rank().orElseThrow());
        lost.put(event.rank().orElseThrow(), newest);
        stand(event.atNanos() - TimeUnit.MILLISECONDS.toNanos(event.number("silent_millis")));
        break;
      case RESIZED:
        // All join again, as other ranks, and go on from the newest version.
        begin(event.atNanos());
        break;
      case CAUGHT_UP:
        roundsAgain += event.number("rounds_again");
        works(event);
        break;
      case VERSION_ENTERED:
        entered(event);
        break;
      case RANK_FINISHED:
        works(event);
        break;
      case PRINTED:
        Matcher found = EVALUATION.matcher(event.text("text"));
        evaluation = found.find() ? found.group() : evaluation;
        break;
      case AGENT_LOST:
        usage.remove(event.text("agent"));
        break;
      case USAGE:
        usage.put(event.text("agent"), event);
        break;
      case JOB_ENDED:
        goOn(event.atNanos());
        break;
      default:
        break;
    }
  }

  /**
   * The job is over before its end, and another one is to go on: training stands still until that
   * one's first version.
   */
  public synchronized void jobIsOver(long nanos) {
    usage.clear();
    evaluation = "";
    begin(nanos);
  }

  /** No rank is there, and training stands still until the first version. */
  private void begin(long nanos) {
    there.clear();
    lost.clear();
    moving.clear();
    stand(nanos);
  }

  /** How many ranks have joined and aren't lost. */
  public synchronized int ranksThere() {
    return there.size();
  }

  /** Deaths of all ranks together. */
  public synchronized int deaths() {
    return deaths;
  }

  /** Rounds that ranks which came back have computed once more. */
  public synchronized int roundsAgain() {
    return roundsAgain;
  }

  /** The newest version that any rank has entered. */
  public synchronized long version() {
    return Math.max(0, newest.version);
  }

  /** How many rounds were done at that version; of a training without rounds, the version. */
  public synchronized long round() {
    return round;
  }

  /**
   * The metrics of the newest round, as XGBoost prints them: {@code [7]}, and after a tab each
   * {@code data-metric:value}. Empty if none were printed.
   */
  public synchronized String evaluation() {
    return evaluation;
  }

  /** The last one of them, by which early stopping goes, for a person: {@code eval-auc 0.81234}. */
  public synchronized String metric() {
    Matcher found = EVALUATION.matcher(evaluation);
    return found.find() ? found.group(1) + " " + brief(found.group(2)) : "";
  }

  private static String brief(String value) {
    try {
      return String.format(Locale.ROOT, "%.5g", Double.parseDouble(value));
    } catch (NumberFormatException e) {
      return value;
    }
  }

  /**
   * Whether a rank that was lost has still to come back, or to repeat what the others have done.
   */
  public synchronized boolean isBehind(int rank) {
    return lost.containsKey(rank);
  }

  /** Ranks that were lost and work with the others again. */
  public synchronized int recoveries() {
    return recoveries;
  }

  /**
   * For how long training has waited for ranks that were lost, until now ({@link System#nanoTime}):
   * from the last sign of life of the first one until all work with the others again. In
   * milliseconds.
   */
  public synchronized long lostMillis(long now) {
    return TimeUnit.NANOSECONDS.toMillis(lostNanos + (stands ? now - standsSince : 0));
  }

  /** How far the job came between these times, and what deaths have cost it. */
  public synchronized String summary(long began, long ended) {
    String reached =
        String.format(
            Locale.ROOT,
            "at version %d (round %d) after %.1f s and %d deaths",
            version(),
            round(),
            TimeUnit.NANOSECONDS.toMillis(ended - began) / 1e3,
            deaths());
    return deaths() == 0
        ? reached
        : String.format(
            Locale.ROOT,
            "%s, for which training waited %.1f s and computed %d rounds again",
            reached,
            lostMillis(ended) / 1e3,
            roundsAgain());
  }

  /**
   * Bytes that all processes together hold, as they have said last: {@code log_bytes} (in memory),
   * {@code spilled_bytes} (logs on disk) or {@code checkpoint_bytes}.
   */
  public synchronized long held(String field) {
    return usage.values().stream().mapToLong(event -> event.number(field)).sum();
  }

  /**
   * A rank that came back repeats what the others had done by then: it works with them when it
   * enters a version that was new then, if it doesn't say so itself before.
   */
  private void entered(TrainingEvent event) {
    Place place = new Place(event.number("lineage"), event.number("version"));
    if (place.isBeyond(lost.getOrDefault(event.rank().orElseThrow(), Place.NONE))) {
      works(event);
    }
    if (!newest.isBeyond(place)) {
      newest = place;
      round = event.number("round");
    }
  }

  private void works(TrainingEvent event) {
    if (lost.remove(event.rank().orElseThrow()) != null) {
      recoveries++;
    }
    if (lost.isEmpty()) {
      goOn(event.atNanos());
    }
  }

  private void stand(long since) {
    if (!stands) {
      stands = true;
      standsSince = since;
    }
  }

  private void goOn(long at) {
    if (stands) {
      stands = false;
      lostNanos += at - standsSince;
    }
  }
}
