package io.rejoin.flink;

import io.rejoin.Communicator;
import java.io.Serializable;
import java.util.List;

/**
 * How a model is trained, in lock step on all ranks. Each rank has an instance of its own, whose
 * methods are called by one thread that isn't Flink's: they may wait for the other ranks, and may
 * use neither Flink's state nor its timers.
 *
 * <p>The model is the same on all ranks whenever a method returns. So it may depend on what
 * collectives give, on the context's world and parameters, and on nothing else: what only one rank
 * has (its rows, the time, a random number) goes through a collective first.
 *
 * @param <T> a row of the input
 * @param <M> the model
 */
public interface TrainerFunction<T, M> extends Serializable {
  /**
   * The model that training begins with. Called before any other method, also where a model is read
   * afterwards instead.
   */
  M open(TrainerContext context) throws Exception;

  /**
   * Trains on the rows of one batch, which may be none: all ranks are called, with a batch of their
   * own each, and make the same collectives in the same order. The end of this call ends a version.
   * An exception fails this rank's task, which Flink starts again.
   *
   * @param batch in the order of the input; never more than the batch's size. Its rows stay as they
   *     are: they are trained on again after a restart, and one that was changed ends the job
   * @param ranks for collectives; its checkpoints and its end are Rejoin's to call
   * @param model the last version's; it may be changed and returned
   * @return the model of the next version
   */
  M onBatch(List<T> batch, Communicator ranks, M model) throws Exception;

  /** The model's bytes: equal for equal models, and all that the next batch depends on. */
  byte[] write(M model) throws Exception;

  /** The model of these bytes; training goes on from it as from the one that was written. */
  M read(byte[] bytes) throws Exception;

  /** The end of this instance, after success or failure. */
  default void close() throws Exception {}
}
