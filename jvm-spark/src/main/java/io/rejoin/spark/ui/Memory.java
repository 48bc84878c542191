package io.rejoin.spark.ui;

import io.rejoin.TrainingEvent;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Map;

/** What a job's processes hold for ranks that come back, and the most that they have held. */
final class Memory {
  /** What is held; each has a field in the event {@code USAGE}. */
  enum Held {
    /** Logs in memory. */
    LOGS("log_bytes", "log_bytes_peak"),
    /** Logs on disk. */
    SPILLED("spilled_bytes", "spilled_bytes"),
    /** Checkpoints in memory. */
    CHECKPOINTS("checkpoint_bytes", "checkpoint_bytes");

    private final String now;
    private final String peak;

    Held(String now, String peak) {
      this.now = now;
      this.peak = peak;
    }
  }

  private final Map<String, TrainingEvent> usage = new HashMap<>();
  private final Map<Held, Long> now = new EnumMap<>(Held.class);
  private final Map<Held, Long> mostOfOne = new EnumMap<>(Held.class);

  /** What a process says of itself. */
  void take(TrainingEvent event) {
    usage.put(event.text("agent"), event);
    for (Held each : Held.values()) {
      mostOfOne.merge(each, event.number(each.peak), Math::max);
    }
    sum();
  }

  /** A process is gone, and what it held. */
  void lost(String agent) {
    usage.remove(agent);
    sum();
  }

  /** As it was summed up elsewhere. */
  void set(Held what, long all, long most) {
    now.put(what, all);
    mostOfOne.merge(what, most, Math::max);
  }

  private void sum() {
    for (Held each : Held.values()) {
      now.put(each, usage.values().stream().mapToLong(one -> one.number(each.now)).sum());
    }
  }

  /** All processes together, as each has said last. */
  long now(Held what) {
    return now.getOrDefault(what, 0L);
  }

  /** The most that one process has held. */
  long mostOfOne(Held what) {
    return mostOfOne.getOrDefault(what, 0L);
  }
}
