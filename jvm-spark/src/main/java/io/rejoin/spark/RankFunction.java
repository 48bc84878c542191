package io.rejoin.spark;

import io.rejoin.Communicator;
import java.io.Serializable;

/**
 * How a model is trained, in lock step on all ranks: each runs this function in its task, on its
 * own rows. All make the same collectives and checkpoints in the same order.
 *
 * @param <T> a row of the data set
 * @param <M> the model; its serialized bytes are equal at all ranks
 */
@FunctionalInterface
public interface RankFunction<T, M extends Serializable> extends Serializable {
  /**
   * Trains to the end. A rank that comes back, and all ranks where they go back to an older
   * version, run it again: {@link Communicator#load} gives the version and the model to go on from,
   * and {@link Communicator#checkpoint(byte[])} takes the next one. What is computed may depend on
   * the rows, on what collectives give, and on the loaded model, and on nothing else. An exception
   * fails this rank's task, which Spark tries again.
   *
   * @param ranks for collectives and checkpoints; its end is Rejoin's to call
   * @param rows this rank's, in the same order each time they are iterated over; they are read from
   *     where they are stored, so keep what is needed often
   * @return the model, the same at all ranks
   */
  M train(Communicator ranks, Iterable<T> rows) throws Exception;
}
