package io.rejoin.it.flink.bench;

import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** One way to train a logistic regression on a stream, by mini-batches, in Flink. */
public interface Training {
  /** Rows of a rank in a batch. */
  int BATCH = 1000;

  /** Of a row. */
  int FEATURES = 30;

  /**
   * Builds it into an environment, whose parallelism is the number of ranks.
   *
   * @param rows as many for each rank as its steps take, a batch each
   * @param clock of the steps
   */
  void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock);

  /** Whether it has no end of its own: the job goes on after the last step. */
  default boolean iterates() {
    return false;
  }
}
