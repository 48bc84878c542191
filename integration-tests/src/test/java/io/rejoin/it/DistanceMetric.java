package io.rejoin.it;

import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.EvalTrait;

/** A user's metric: the mean absolute error of a rank's own rows. */
public final class DistanceMetric implements EvalTrait {
  private static final long serialVersionUID = 1L;

  @Override
  public String getMetric() {
    return "distance";
  }

  @Override
  public float eval(float[][] predictions, DMatrix rows) {
    return eval(predictions, rows.jDMatrix());
  }

  @Override
  public float eval(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    try {
      float[] labels = rows.getLabel();
      double sum = 0;
      for (int i = 0; i < labels.length; i++) {
        sum += Math.abs(1 / (1 + Math.exp(-predictions[i][0])) - labels[i]);
      }
      return (float) (sum / labels.length);
    } catch (XGBoostError error) {
      throw new IllegalStateException(error);
    }
  }
}
