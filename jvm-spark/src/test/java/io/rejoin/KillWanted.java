package io.rejoin;

/** The tracker's wish that a task be killed, for tests that have no frozen process. */
public final class KillWanted {
  private KillWanted() {}

  /** For the first try of the task of rank 0. */
  public static TrainingEvent ofTheFirstTry() {
    String[] words = {
      "KillWanted", "rank", "0", "stage", "0", "task", "0", "executor", "driver", "reason", "silent"
    };
    return new TrainingEvent(words, System.nanoTime());
  }
}
