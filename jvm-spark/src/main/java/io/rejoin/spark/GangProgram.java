package io.rejoin.spark;

import io.rejoin.GangTask;
import java.io.Serializable;
import java.util.Iterator;

/** What each rank of a gang does in its task: from joining to the job's end, or to a failure. */
interface GangProgram<T> extends Serializable {
  /**
   * Takes part as the task's rank; returns at the job's end. {@code inputs}: what a rank reads.
   * What it returns goes to who reads the gang's partition in the same task; the result goes to the
   * tracker.
   */
  Iterator<byte[]> run(GangTask gang, SparkTask task, RankInputs<T> inputs);

  /** How many rounds are trained, at most; 0 where it is not known. */
  default int rounds() {
    return 0;
  }

  /** What makes checkpoints come more often, so that less is logged between two; for errors. */
  String checkpointAdvice();

  /**
   * How many bytes a rank makes of pages of so many outside of the JVM's heap, where that is known;
   * 0 otherwise.
   */
  default long nativeBytes(long pageBytes) {
    return 0;
  }

  /**
   * Whether each rank is a process of its own beside its executor, with an agent of its own. When
   * it hangs, its task is ended then, and not the executor.
   */
  default boolean besideExecutor() {
    return false;
  }
}
