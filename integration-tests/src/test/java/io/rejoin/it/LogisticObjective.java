package io.rejoin.it;

import java.util.Arrays;
import java.util.List;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;
import org.apache.spark.TaskContext;

/**
 * A user's objective, the logistic one, that throws once: in one round, at one rank, in the first
 * attempt of its task.
 */
public final class LogisticObjective implements ObjectiveTrait {
  private static final long serialVersionUID = 1L;

  private final int rank;
  private final int round;
  private final int attempts;
  private transient int calls;

  /** {@code attempts}: in so many first attempts it throws; 0 never, 1 once. */
  public LogisticObjective(int rank, int round, int attempts) {
    this.rank = rank;
    this.round = round;
    this.attempts = attempts;
  }

  @Override
  public List<float[]> getGradient(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    TaskContext task = TaskContext.get();
    if (task.partitionId() == rank && task.attemptNumber() < attempts && calls++ == round) {
      throw new IllegalStateException(
          "the user's objective has a bug that shows in round " + round);
    }
    try {
      float[] labels = rows.getLabel();
      float[] gradients = new float[labels.length];
      float[] hessians = new float[labels.length];
      for (int i = 0; i < labels.length; i++) {
        float probability = (float) (1 / (1 + Math.exp(-predictions[i][0])));
        gradients[i] = probability - labels[i];
        hessians[i] = probability * (1 - probability);
      }
      return Arrays.asList(gradients, hessians);
    } catch (XGBoostError error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public scala.collection.immutable.List<float[]> getGradient(float[][] predictions, DMatrix rows) {
    throw new UnsupportedOperationException("the training loop asks in Java");
  }
}
