package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.util.Locale;

/** How a restarted rank gets the same rows in the same order again ({@code spark.rejoin.input}). */
enum InputMode {
  /** The prepared partitions are stored once, on several executors. */
  REPLICATE,
  /**
   * They are computed again; only where their source gives the same rows in the same order each
   * time.
   */
  REREAD,
  /** They are written to Spark's checkpoint directory. */
  CHECKPOINT;

  static InputMode of(String text) {
    for (InputMode mode : values()) {
      if (mode.name().equals(text.trim().toUpperCase(Locale.ROOT))) {
        return mode;
      }
    }
    throw new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        "spark.rejoin.input is \"" + text + "\"; expected replicate, reread or checkpoint");
  }
}
