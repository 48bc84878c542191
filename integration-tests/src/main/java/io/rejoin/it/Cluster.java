package io.rejoin.it;

import java.util.List;

/** A real cluster on this machine, of either framework. */
public interface Cluster {
  /** Its folder, with the logs of all its processes. */
  WorkDirectory work();

  /** The living processes in which tasks run or are coordinated, but for this one. */
  List<Processes.Found> processes();
}
