package io.rejoin.spark.ui;

/** Processes by the names that they have in events: executors, and Python workers beside them. */
public final class WorkerName {
  private WorkerName() {}

  /** The executor of a process: that itself, or the one whose Python worker it is. */
  public static String executorOf(String process) {
    return process.replaceFirst("-python-\\d+$", "");
  }
}
