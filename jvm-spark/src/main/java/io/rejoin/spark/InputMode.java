package io.rejoin.spark;

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

  /** By the setting's value, which has been checked. */
  static InputMode of(String text) {
    return valueOf(text.toUpperCase(Locale.ROOT));
  }
}
