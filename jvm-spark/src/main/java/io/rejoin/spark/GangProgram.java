package io.rejoin.spark;

import io.rejoin.GangTask;
import java.io.Serializable;

/** What each rank of a gang does in its task: from joining to the job's end, or to a failure. */
interface GangProgram<T> extends Serializable {
  /** Takes part as the task's rank; returns at the job's end. */
  void run(GangTask gang, SparkTask task, RankInput<T> input);

  /** What makes checkpoints come more often, so that less is logged between two; for errors. */
  String checkpointAdvice();
}
