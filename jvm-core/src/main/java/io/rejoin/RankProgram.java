package io.rejoin;

/** What a rank computes, in lock step with the others. */
@FunctionalInterface
public interface RankProgram {
  /**
   * From where the rank stands to the end of training; called again, with another communicator,
   * where all ranks go back to an older version. It loads what it starts from ({@link
   * Communicator#load}) and takes checkpoints; the end is reported by who calls it.
   *
   * @return the model's bytes, equal at all ranks
   */
  byte[] run(Communicator ranks) throws Exception;
}
