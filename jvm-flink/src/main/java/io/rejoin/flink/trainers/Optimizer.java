package io.rejoin.flink.trainers;

import java.io.Serializable;

/**
 * How an {@link OnlineLogisticRegression} changes its coefficients by the gradient of a batch:
 * {@link Ftrl} or {@link Sgd}.
 */
public abstract class Optimizer implements Serializable {
  private static final long serialVersionUID = 1L;

  Optimizer() {}

  abstract ModelKind kind();

  /** How many numbers it keeps of each coefficient. */
  abstract int states();

  /**
   * One step.
   *
   * @param model coefficients and states, which are changed; its intercept isn't penalized
   * @param gradient of the loss, added up over the rows with their weights; a number for each
   *     coefficient
   * @param weight of all rows together, above 0
   */
  abstract void step(LogisticRegressionModel model, double[] gradient, double weight);
}
