package io.rejoin.spark.ui;

import java.util.Locale;

/** What a rank is doing, as people are shown it. */
enum RankState {
  /** Its task has not joined yet. */
  WAITING("#ececec"),
  /** It connects, and reads its rows. */
  LOADING("#9ecae1"),
  /** It works with the others. */
  TRAINING("#3182bd"),
  /** Declared lost; the time since its last sign of life counts. */
  LOST("#d62728"),
  /** Started again, and waits for its plan and its checkpoint. */
  RESTORING("#ff9f40"),
  /** Computes again what it had computed before, from the results that the others kept. */
  REPLAYING("#9467bd"),
  /** It has reported its end. */
  FINISHED("#b5cfa8");

  private final String colour;

  RankState(String colour) {
    this.colour = colour;
  }

  String word() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** In the timeline. */
  String colour() {
    return colour;
  }
}
