package io.rejoin.spark;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Timer;
import java.util.TimerTask;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.ui.ConsoleProgressBar;
import scala.Option;

/**
 * Draws one line on the driver's terminal while gangs train.
 *
 * <p>Spark draws a bar of its own there, every 200 ms, from a thread of its own, at the same place:
 * the line that the cursor is in. A terminal has one such line, and what Spark would show of a gang
 * is a stage of which all tasks run and none has ended, for all of the training. So Spark's bar is
 * held off meanwhile: for 500 ms after {@code finishAll}, by which Spark itself clears it when a
 * job has ended, it draws nothing, and we call that more often. Whoever draws holds the bar's
 * monitor, as Spark's own methods do, so that neither overwrites the other; should our thread be
 * late by half a second, Spark's bar appears and is cleared before ours is drawn again. Afterwards
 * it comes back by itself, if there still is a stage to show.
 */
final class ConsoleProgress {
  private static final long PERIOD_MILLIS = 200;

  /** Where Linux, which the native library is made for, says what standard error is. */
  private static final Path STANDARD_ERROR = Path.of("/proc/self/fd/2");

  /** Where COLUMNS doesn't say it. */
  private static final int USUAL_WIDTH = 80;

  private final ConsoleProgressBar sparks;
  private final Supplier<List<JobProgress>> jobs;
  private final PrintStream terminal;
  private final int width;

  /** How many gangs train; guarded by Spark's bar, as is the timer. */
  private int gangs;

  private Timer timer;

  ConsoleProgress(
      ConsoleProgressBar sparks,
      Supplier<List<JobProgress>> jobs,
      PrintStream terminal,
      int width) {
    this.sparks = sparks;
    this.jobs = jobs;
    this.terminal = terminal;
    this.width = width;
  }

  /**
   * One for these jobs, where Spark shows progress ({@code spark.ui.showConsoleProgress}) and
   * standard error is a terminal.
   */
  static Optional<ConsoleProgress> of(SparkContext context, Supplier<List<JobProgress>> jobs) {
    Option<ConsoleProgressBar> sparks = context.progressBar();
    return sparks.isDefined() && isTerminal(STANDARD_ERROR)
        ? Optional.of(
            new ConsoleProgress(sparks.get(), jobs, System.err, width(System.getenv("COLUMNS"))))
        : Optional.empty();
  }

  /** Whether what this links to is a terminal; Java knows it of standard input and output alone. */
  static boolean isTerminal(Path stream) {
    try {
      return Files.readSymbolicLink(stream).toString().matches("/dev/(pts/.*|tty.*|console)");
    } catch (IOException | UnsupportedOperationException e) {
      return false;
    }
  }

  /** As wide as Spark's bar, so that each clears all of the other. */
  static int width(String columns) {
    return columns != null && columns.matches("[1-9]\\d{0,3}")
        ? Integer.parseInt(columns)
        : USUAL_WIDTH;
  }

  /** A gang begins to train. */
  void begin() {
    synchronized (sparks) {
      gangs++;
      if (gangs == 1) {
        timer = new Timer("rejoin-progress", true);
        timer.schedule(
            new TimerTask() {
              @Override
              public void run() {
                draw();
              }
            },
            PERIOD_MILLIS,
            PERIOD_MILLIS);
      }
    }
  }

  /**
   * It has ended, of which this line stays on the terminal. With the last gang the line below it is
   * blank before this returns, and stays so.
   */
  void end(String summary) {
    synchronized (sparks) {
      gangs--;
      if (gangs == 0) {
        timer.cancel();
      }
      show("");
      terminal.print(summary + System.lineSeparator());
      terminal.flush();
    }
  }

  private void draw() {
    String line = JobProgress.line(jobs.get(), width);
    synchronized (sparks) {
      if (gangs > 0) {
        show(line);
      }
    }
  }

  /** The cursor is left where it was, at the line's beginning: what is logged stands there. */
  private void show(String line) {
    sparks.finishAll();
    terminal.print("\r" + line + " ".repeat(width - line.length()) + "\r");
    terminal.flush();
  }
}
