package io.rejoin;

/** Events as the tracker gives them, for tests in which nothing dies. */
public final class EventsForTests {
  private EventsForTests() {}

  /** The tracker's wish that the first try of the task of rank 0 be killed. */
  public static TrainingEvent killWantedOfTheFirstTry() {
    return event(
        "KillWanted",
        "index",
        "0",
        "stage",
        "0",
        "task",
        "0",
        "executor",
        "driver",
        "reason",
        "silent");
  }

  /** A rank's death, and how many it has had now. */
  public static TrainingEvent rankLost(int rank, int deaths) {
    return event(
        "RankLost",
        "rank",
        "" + rank,
        "deaths",
        "" + deaths,
        "reason",
        "exit 137",
        "silent_millis",
        "0");
  }

  /** Any event, by its kind as the native library has it, and its fields with their values. */
  public static TrainingEvent event(String... words) {
    return new TrainingEvent(words, System.nanoTime());
  }
}
