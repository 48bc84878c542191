package io.rejoin.it.flink;

import io.rejoin.it.Processes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A JobManager, a TaskManager or a ZooKeeper server, in a process of its own. */
public final class FlinkProcess implements AutoCloseable {
  private final String name;
  private final Process process;
  private final Path log;

  FlinkProcess(String name, Process process, Path log) {
    this.name = name;
    this.process = process;
    this.log = log;
  }

  /** Its name, which Flink calls a TaskManager by, too ({@code taskmanager.resource-id}). */
  public String name() {
    return name;
  }

  public long pid() {
    return process.pid();
  }

  public boolean isAlive() {
    return process.isAlive();
  }

  /** Where it logs to. */
  public Path log() {
    return log;
  }

  /** All that it has logged. */
  public String logged() throws IOException {
    return Files.exists(log) ? Files.readString(log) : "";
  }

  /**
   * Sends a signal, named as {@code kill} names it: KILL, STOP, CONT. After KILL it is dead when
   * this returns.
   */
  public void signal(String signal) throws InterruptedException {
    if (!Processes.signal(pid(), signal)) {
      throw new IllegalStateException(this + " is gone already; SIG" + signal + " reaches nobody");
    }
    if (signal.equals("KILL")) {
      process.waitFor();
    }
  }

  /** What is done when it has ended, by whatever way. */
  void atEnd(Runnable action) {
    process.onExit().thenRun(action);
  }

  /** Whether it is stopped (SIGSTOP). */
  public boolean isStopped() throws IOException {
    String state = Files.readString(Path.of("/proc", Long.toString(pid()), "stat"));
    // The name, in parentheses, may have anything in it.
    return state.charAt(state.lastIndexOf(')') + 2) == 'T';
  }

  /** Waits until it logs this; it must not end before. */
  Matcher awaitLogged(Pattern wanted, Duration limit) throws Exception {
    return Waiting.until(
        this + " logs `" + wanted + "`",
        limit,
        () -> {
          Matcher match = wanted.matcher(logged());
          if (match.find()) {
            return match;
          }
          if (!isAlive()) {
            throw new IllegalStateException(this + " ended with status " + process.exitValue());
          }
          return null;
        });
  }

  /** Kills it. A Flink process that is asked politely takes seconds, and nothing of it is kept. */
  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public String toString() {
    return name + " (process " + pid() + ", log " + log + ")";
  }
}
