package io.rejoin.spark.ui;

import java.util.EnumMap;
import java.util.Map;
import java.util.OptionalLong;

/**
 * What followed a rank's death, or the end of its task on purpose by which it is moved, from the
 * last sign of life until it worked with the others again. Times are milliseconds since 1970.
 */
final class Recovery {
  /** The parts of it, in the order in which they come. */
  enum Part {
    /** From the last sign of life until the tracker declared the rank lost. */
    DETECTION,
    /** Until a task had joined as the rank: Spark's retry, with a new executor if need be. */
    RESCHEDULING,
    /** Until it had its plan and the checkpoint's bytes. */
    RESTORE,
    /** Until it had connected, and read its rows. */
    RELOAD,
    /** Until it had computed again what was lost. */
    REPLAY
  }

  private final int rank;
  private final String death;
  private final String executor;
  private final String reason;
  private final long died;
  private final Map<Part, Long> ends = new EnumMap<>(Part.class);
  private String newExecutor = "";
  private String source = "";
  private long restoredBytes;
  private long roundsAgain;
  private long replayedBytes;
  private boolean over;

  /**
   * A loss of a rank on this executor.
   *
   * @param death which death of its rank that counts it is, or that it is none
   */
  Recovery(int rank, String death, String executor, String reason, long died, long noticed) {
    this.rank = rank;
    this.death = death;
    this.executor = executor;
    this.reason = reason;
    this.died = died;
    ends.put(Part.DETECTION, noticed);
  }

  int rank() {
    return rank;
  }

  /** Which death of its rank it is, or "moved". */
  String death() {
    return death;
  }

  /** The one that the rank was lost with. */
  String executor() {
    return executor;
  }

  String reason() {
    return reason;
  }

  long died() {
    return died;
  }

  /** The one that the rank is on since; empty until a task has joined. */
  String newExecutor() {
    return newExecutor;
  }

  /** Where the checkpoint came from. */
  String source() {
    return source;
  }

  long restoredBytes() {
    return restoredBytes;
  }

  long roundsAgain() {
    return roundsAgain;
  }

  long replayedBytes() {
    return replayedBytes;
  }

  /** Whether the rank works again, died once more, or the job is over. */
  boolean isOver() {
    return over;
  }

  /** When it was over; the largest number while it lasts. */
  long ended() {
    return over ? ends.values().stream().mapToLong(Long::longValue).max().orElse(died) : OPEN;
  }

  private static final long OPEN = Long.MAX_VALUE;

  /** How long this part took; empty for one that wasn't reached, or can't be told apart. */
  OptionalLong millis(Part part) {
    Long end = ends.get(part);
    if (end == null) {
      return OptionalLong.empty();
    }
    long before = died;
    for (Part each : Part.values()) {
      if (each == part) {
        break;
      }
      before = Math.max(before, ends.getOrDefault(each, before));
    }
    return OptionalLong.of(Math.max(0, end - before));
  }

  void joined(String executorNow, long at) {
    newExecutor = executorNow;
    ends.putIfAbsent(Part.RESCHEDULING, at);
  }

  void restored(String from, long bytes, long at) {
    source = from;
    restoredBytes = bytes;
    ends.putIfAbsent(Part.RESTORE, at);
  }

  void reloaded(long at) {
    ends.putIfAbsent(Part.RELOAD, at);
  }

  void caughtUp(long rounds, long bytes, long at) {
    roundsAgain = rounds;
    replayedBytes = bytes;
    ends.putIfAbsent(Part.REPLAY, at);
    over = true;
  }

  /** It ends within the part that it is in: the rank died again, or the job is over. */
  void cut(long at) {
    if (over) {
      return;
    }
    for (Part each : Part.values()) {
      if (!ends.containsKey(each) && !isBehind(each)) {
        ends.put(each, Math.max(at, died));
        break;
      }
    }
    over = true;
  }

  /** Whether a later part has ended already. */
  private boolean isBehind(Part part) {
    return ends.keySet().stream().anyMatch(other -> other.compareTo(part) > 0);
  }
}
