package io.rejoin.it;

import ml.dmlc.xgboost4j.java.Communicator;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.EvalTrait;

/**
 * A user's metric that is the same at every rank: the mean absolute error of all ranks' rows, by a
 * collective call of its own.
 */
public final class SharedMetric implements EvalTrait {
  private static final long serialVersionUID = 1L;

  @Override
  public String getMetric() {
    return "shared-distance";
  }

  @Override
  public float eval(float[][] predictions, DMatrix rows) {
    return eval(predictions, rows.jDMatrix());
  }

  @Override
  public float eval(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    try {
      float[] labels = rows.getLabel();
      float sum = 0;
      for (int i = 0; i < labels.length; i++) {
        sum += Math.abs(predictions[i][0] - labels[i]);
      }
      float[] all =
          Communicator.allReduce(new float[] {sum, labels.length}, Communicator.OpType.SUM);
      return all[0] / all[1];
    } catch (XGBoostError error) {
      throw new IllegalStateException(error);
    }
  }
}
