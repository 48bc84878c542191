package io.rejoin.it.flink.bench;

import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A moment between a death and training going on, as a log tells it.
 *
 * @param what happens, in words
 * @param atJobManager whether its JobManager logs it, or else a TaskManager
 * @param line of the log, without its time
 */
record Moment(String what, boolean atJobManager, Pattern line) {
  /** Those of a rank whose second attempt this is, in their order. */
  static List<Moment> of(int rank, int world) {
    String attempt = "rank " + rank + " of " + world + " \\(attempt 1\\): ";
    String task = "\\(" + (rank + 1) + "/" + world + "\\)";
    return List.of(
        atJobManager("Rejoin has noticed", "rank " + rank + " on TaskManager .* is lost"),
        atJobManager("Flink has noticed", "attempt 0 of rank " + rank + " is over"),
        atJobManager(
            "Flink restarts its task",
            "switched from state RESTARTING to RUNNING|"
                + "Deploying Source: rows .*"
                + task
                + " \\(attempt #1\\)"),
        atTaskManager("the task has come", "Received task Source: rows .*" + task + "#1"),
        atTaskManager("its classes are there", task + "#1 .* switched from DEPLOYING"),
        atTaskManager("Rejoin's operator is open", attempt + "its task is open"),
        atJobManager("the rank has joined", "rank " + rank + " is back on TaskManager"),
        atTaskManager("the model is loaded", attempt + "begins at version"),
        atTaskManager("its first version is complete", attempt + "its first version"));
  }

  private static Moment atJobManager(String what, String line) {
    return new Moment(what, true, timed(line));
  }

  private static Moment atTaskManager(String what, String line) {
    return new Moment(what, false, timed(line));
  }

  private static Pattern timed(String line) {
    return Pattern.compile("(?m)^(\\d\\d:\\d\\d:\\d\\d\\.\\d\\d\\d) .*(?:" + line + ")");
  }

  /** How many milliseconds after another moment it first is in a log; null where it isn't. */
  Double millisAfter(LocalTime begin, String log) {
    for (Matcher lines = line.matcher(log); lines.find(); ) {
      long millis = ChronoUnit.MILLIS.between(begin, LocalTime.parse(lines.group(1)));
      // Logs name no day.
      millis += millis < -DAY_MILLIS / 2 ? DAY_MILLIS : 0;
      if (millis >= 0) {
        return (double) millis;
      }
    }
    return null;
  }

  private static final long DAY_MILLIS = 86_400_000;
}
