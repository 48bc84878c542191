package io.rejoin;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * What a driver's metrics show of a job, summed up from its events: recoveries, the time that they
 * took, and what the processes hold for ranks that come back. Several jobs may follow each other.
 * Safe to use from several threads.
 */
public final class JobTotals {
  private final Set<Integer> lost = new HashSet<>();
  private final Map<String, TrainingEvent> usage = new HashMap<>();
  private boolean stands;
  private long standsSince;
  private long lostNanos;
  private int recoveries;

  /** The next event of the job that is under way. */
  public synchronized void accept(TrainingEvent event) {
    switch (event.kind()) {
      case RANK_LOST:
        lost.add(event.rank().orElseThrow());
        stand(event.atNanos() - TimeUnit.MILLISECONDS.toNanos(event.number("silent_millis")));
        break;
      case CAUGHT_UP:
      case VERSION_ENTERED:
        if (lost.remove(event.rank().orElseThrow())) {
          recoveries++;
        }
        if (lost.isEmpty()) {
          goOn(event.atNanos());
        }
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
    lost.clear();
    usage.clear();
    stand(nanos);
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
