package io.rejoin;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * What people and metrics are shown of a job, summed up from its events: how far it is, which ranks
 * are there, deaths and recoveries, the time that they took, and what the processes hold for ranks
 * that come back. Several jobs may follow each other. Safe to use from several threads.
 */
public final class JobTotals {
  private final Set<Integer> there = new HashSet<>();
  private final Set<Integer> lost = new HashSet<>();
  private final Map<String, TrainingEvent> usage = new HashMap<>();
  private boolean stands;
  private long standsSince;
  private long lostNanos;
  private int deaths;
  private int recoveries;
  private int roundsAgain;
  private long lineage;
  private long version;
  private long round;

  /** The next event of the job that is under way. */
  public synchronized void accept(TrainingEvent event) {
    switch (event.kind()) {
      case RANK_JOINED:
        there.add(event.rank().orElseThrow());
        break;
      case RANK_LOST:
        deaths++;
        there.remove(event.rank().orElseThrow());
        lost.add(event.rank().orElseThrow());
        stand(event.atNanos() - TimeUnit.MILLISECONDS.toNanos(event.number("silent_millis")));
        break;
      case CAUGHT_UP:
        roundsAgain += event.number("rounds_again");
        works(event);
        break;
      case VERSION_ENTERED:
        advance(event);
        works(event);
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
    there.clear();
    lost.clear();
    usage.clear();
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
    return version;
  }

  /** How many rounds were done at that version; of a training without rounds, the version. */
  public synchronized long round() {
    return round;
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

  /**
   * Bytes that all processes together hold, as they have said last: {@code log_bytes} (in memory),
   * {@code spilled_bytes} (logs on disk) or {@code checkpoint_bytes}.
   */
  public synchronized long held(String field) {
    return usage.values().stream().mapToLong(event -> event.number(field)).sum();
  }

  /**
   * After a rollback the newest version is that of the new lineage, although it is an older one.
   */
  private void advance(TrainingEvent event) {
    long line = event.number("lineage");
    if (line > lineage || (line == lineage && event.number("version") >= version)) {
      lineage = line;
      version = event.number("version");
      round = event.number("round");
    }
  }

  private void works(TrainingEvent event) {
    if (lost.remove(event.rank().orElseThrow())) {
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
