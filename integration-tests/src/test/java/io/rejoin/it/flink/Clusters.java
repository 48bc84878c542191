package io.rejoin.it.flink;

/** The cluster that the classes of tests share: starting one takes seconds. */
final class Clusters {
  /** Three for the ranks of a job, and one that takes a dead one's place at once. */
  static final int TASK_MANAGERS = 4;

  private static FlinkCluster cluster;

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
}
