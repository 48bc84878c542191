package io.rejoin.it;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/**
 * Gives a piece of a test a limit. When it expires, the threads of this process and of all
 * processes of the cluster are written into the cluster's folder, and the test fails with the step
 * that it was in and where to look: a hang is a finding, not a lost evening.
 */
public final class Deadline {
  private static final int STEP_FRAMES = 8;

  private Deadline() {}

  /** Runs it on a thread of its own; what it throws is thrown here. */
  public static <T> T within(Duration limit, String what, Cluster cluster, Callable<T> work)
      throws Exception {
    FutureTask<T> task = new FutureTask<>(work);
    Thread thread = new Thread(task, "test: " + what);
    thread.setDaemon(true);
    thread.start();
    try {
      return task.get(limit.toNanos(), TimeUnit.NANOSECONDS);
    } catch (TimeoutException expired) {
      String step = step(thread);
      Path dump = dump(what, cluster);
      thread.interrupt();
      throw new AssertionError(
          what
              + " did not end within "
              + limit.toSeconds()
              + " s; it was in "
              + step
              + "; threads of all processes: "
              + dump,
          expired);
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof Exception) {
        throw (Exception) failed.getCause();
      }
      if (failed.getCause() instanceof Error) {
        throw (Error) failed.getCause();
      }
      throw failed;
    }
  }

  /** Which step of a test this thread is in: its frames in our own code, the innermost first. */
  private static String step(Thread thread) {
    return Arrays.stream(thread.getStackTrace())
        .filter(frame -> frame.getClassName().startsWith("io.rejoin."))
        .limit(STEP_FRAMES)
        .map(frame -> frame.getClassName().replaceAll(".*\\.", "") + "." + frame.getMethodName())
        .collect(Collectors.joining(" < "));
  }

  private static Path dump(String what, Cluster cluster) throws IOException, InterruptedException {
    Path file = cluster.work().file("hang-" + what.replaceAll("[^A-Za-z0-9]+", "-") + ".log");
    StringBuilder text = new StringBuilder("==== this process\n");
    for (ThreadInfo thread : ManagementFactory.getThreadMXBean().dumpAllThreads(true, true)) {
      text.append('"')
          .append(thread.getThreadName())
          .append("\" ")
          .append(thread.getThreadState())
          .append('\n');
      for (StackTraceElement frame : thread.getStackTrace()) {
        text.append("    at ").append(frame).append('\n');
      }
    }
    Files.writeString(file, text);
    for (Processes.Found process : cluster.processes()) {
      Path other = cluster.work().file("hang-" + process.pid() + ".log");
      // A stopped process doesn't answer; it gets a moment, not more.
      Process jstack =
          new ProcessBuilder("jstack", "-l", Long.toString(process.pid()))
              .redirectErrorStream(true)
              .redirectOutput(other.toFile())
              .start();
      if (!jstack.waitFor(10, TimeUnit.SECONDS)) {
        jstack.destroyForcibly();
      }
    }
    return file;
  }
}
