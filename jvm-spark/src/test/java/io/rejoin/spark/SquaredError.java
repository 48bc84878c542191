package io.rejoin.spark;

import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.EvalTrait;

/** A user's metric, computed from a rank's own rows. */
public final class SquaredError implements EvalTrait {
  private static final long serialVersionUID = 1L;

  @Override
  public String getMetric() {
    return "squared";
  }

  @Override
  public float eval(float[][] predictions, ml.dmlc.xgboost4j.scala.DMatrix matrix) {
    return eval(predictions, matrix.jDMatrix());
  }

  @Override
  public float eval(float[][] predictions, DMatrix matrix) {
    try {
      float[] labels = matrix.getLabel();
      double sum = 0;
      for (int i = 0; i < labels.length; i++) {
        double difference = 1 / (1 + Math.exp(-predictions[i][0])) - labels[i];
        sum += difference * difference;
      }
      return (float) (sum / labels.length);
    } catch (XGBoostError e) {
      throw new IllegalStateException("the labels can't be read", e);
    }
  }
}
