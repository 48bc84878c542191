package io.rejoin.it.flink;

/** The clusters that the classes of tests share: starting one takes seconds. */
final class Clusters {
  /** Three for the ranks of a job, and one that takes a dead one's place at once. */
  static final int TASK_MANAGERS = 4;

  private static FlinkCluster cluster;
  private static FlinkCluster library;

  private Clusters() {}

  /** It, with all its TaskManagers alive and all slots free; its shutdown hook closes it. */
  static synchronized FlinkCluster shared() throws Exception {
    if (cluster == null) {
      cluster = FlinkCluster.named("flink").taskManagers(TASK_MANAGERS).replacing().start();
    } else {
      cluster.awaitTaskManagers(TASK_MANAGERS);
    }
    return cluster;
  }

  /**
   * Another one, in whose {@code lib/} Rejoin is beside XGBoost: the hook serves all of its jobs,
   * and not the first one of each TaskManager alone.
   */
  static synchronized FlinkCluster withRejoinInLib() throws Exception {
    if (library == null) {
      library =
          FlinkCluster.named("lib").taskManagers(TASK_MANAGERS).replacing().jarsInLib().start();
    } else {
      library.awaitTaskManagers(TASK_MANAGERS);
    }
    return library;
  }
}
