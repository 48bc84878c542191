package io.rejoin.it.bench;

import java.io.Serializable;

/** Something to be done in a worker process; both ends have the same class path. */
@FunctionalInterface
public interface Work extends Serializable {
  /** Does it; what it returns goes back to the parent. */
  Serializable run() throws Exception;
}
