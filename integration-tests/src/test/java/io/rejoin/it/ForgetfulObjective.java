package io.rejoin.it;

import java.util.Arrays;
import java.util.List;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;
import org.apache.spark.TaskContext;

/** A user's objective with a defect: what it computes depends on how often the task was tried. */
public final class ForgetfulObjective implements ObjectiveTrait {
  private static final long serialVersionUID = 1L;

  @Override
  public List<float[]> getGradient(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    float defect = TaskContext.get().attemptNumber() * 0.25f;
    try {
      float[] labels = rows.getLabel();
      float[] gradients = new float[labels.length];
      float[] hessians = new float[labels.length];
      for (int i = 0; i < labels.length; i++) {
        gradients[i] = predictions[i][0] - labels[i] + defect;
        hessians[i] = 1;
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
