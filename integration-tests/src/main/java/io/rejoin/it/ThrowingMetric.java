package io.rejoin.it;

import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.EvalTrait;
import org.apache.spark.TaskContext;

/** A user's metric with a fault: it throws in one round of the first try of one rank. */
public final class ThrowingMetric implements EvalTrait {
  private static final long serialVersionUID = 1L;

  private final int rank;
  private final int round;
  private transient int called;

  ThrowingMetric(int rank, int round) {
    this.rank = rank;
    this.round = round;
  }

  @Override
  public String getMetric() {
    return "throwing";
  }

  @Override
  public float eval(float[][] predictions, DMatrix rows) {
    return eval(predictions, rows.jDMatrix());
  }

  @Override
  public float eval(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    TaskContext task = TaskContext.get();
    boolean isFirst = task.attemptNumber() == 0 && task.stageAttemptNumber() == 0;
    if (isFirst && task.partitionId() == rank && called++ == round) {
      throw new IllegalStateException("the fault of rank " + rank + " in round " + round);
    }
    return 0;
  }
}
