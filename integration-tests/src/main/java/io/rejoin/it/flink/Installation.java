package io.rejoin.it.flink;

import java.io.IOException;
import java.util.List;

/** Where a cluster's programs come from. */
interface Installation {
  /**
   * Starts a JobManager.
   *
   * @param arguments of Flink's program: {@code -D}, then {@code key=value}, as often as needed
   */
  FlinkProcess startJobManager(String name, List<String> arguments) throws IOException;

  /** Starts a TaskManager; arguments as above. */
  FlinkProcess startTaskManager(String name, List<String> arguments) throws IOException;
}
