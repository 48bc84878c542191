package io.rejoin.spark;

import java.util.Arrays;
import java.util.List;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;

/** A user's objective: the logistic loss. */
public final class LogisticObjective implements ObjectiveTrait {
  private static final long serialVersionUID = 1L;

  @Override
  public scala.collection.immutable.List<float[]> getGradient(
      float[][] predictions, ml.dmlc.xgboost4j.scala.DMatrix matrix) {
    return ScalaCollections.list(getGradient(predictions, matrix.jDMatrix()));
  }

  @Override
  public List<float[]> getGradient(float[][] predictions, DMatrix matrix) {
    try {
      float[] labels = matrix.getLabel();
      float[] gradient = new float[labels.length];
      float[] hessian = new float[labels.length];
      for (int i = 0; i < labels.length; i++) {
        float probability = (float) (1 / (1 + Math.exp(-predictions[i][0])));
        gradient[i] = probability - labels[i];
        hessian[i] = probability * (1 - probability);
      }
      return Arrays.asList(gradient, hessian);
    } catch (XGBoostError e) {
      throw new IllegalStateException("the labels can't be read", e);
    }
  }
}
