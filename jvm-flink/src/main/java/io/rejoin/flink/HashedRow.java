package io.rejoin.flink;

/**
 * A row that makes the hash of its content itself. Rejoin compares the rows that a restarted rank
 * reads with those that the model was trained on, by their hashes. Of other rows it takes the hash
 * of the bytes that Flink serializes them to, which for a POJO costs more than many a trainer.
 */
public interface HashedRow {
  /**
   * A hash of 64 bits of all that a trainer sees of the row: equal for equal rows, in each process
   * and after a restart, and for other rows another one but by chance.
   */
  long contentHash();
}
