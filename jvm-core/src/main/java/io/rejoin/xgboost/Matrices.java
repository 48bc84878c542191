package io.rejoin.xgboost;

import java.util.Map;
import ml.dmlc.xgboost4j.java.DMatrix;

/**
 * The matrices of one rank: the one to train on first, then those to evaluate on, by name and in a
 * fixed order.
 */
public interface Matrices extends AutoCloseable {
  /** Opens them anew from the rank's input: the same rows in the same order each time. */
  @FunctionalInterface
  interface Source {
    /**
     * Called on the training thread after the communicator has started, because building a matrix
     * talks to the other ranks; called again after a rollback.
     *
     * @throws Exception whatever reading the input throws; the task ends with it and may be retried
     */
    Matrices open() throws Exception;
  }

  /** The same in a job whose world may change: which rows a rank has depends on the world. */
  @FunctionalInterface
  interface SourceByWorld {
    /**
     * As {@link Source#open}, called again when the world has changed, too.
     *
     * @param world how many ranks there are
     * @throws Exception as {@link Source#open}
     */
    Matrices open(int world) throws Exception;
  }

  /** By name; the first is the training matrix. */
  Map<String, DMatrix> byName();

  /** Frees them. */
  @Override
  void close();
}
