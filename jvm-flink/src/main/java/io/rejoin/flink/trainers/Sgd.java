package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;

/**
 * Mini-batch stochastic gradient descent with a constant learning rate. With the gradient g of a
 * batch, added up over its rows with their weights, and the sum W of these weights
 *
 * <pre>
 *   w = w - learningRate (g / W + l2 w)
 *   w = sgn(w) max(0, |w| - learningRate l1)
 * </pre>
 *
 * <p>The second line is the proximal step of l1 (Duchi and Singer, "Efficient Online and Batch
 * Learning Using Forward Backward Splitting", JMLR 2009), which makes coefficients exactly 0. Since
 * g / W is a mean, weights count among the rows of a batch: twice the weights of all of them is the
 * same step. An intercept has neither l1 nor l2. Every method gives a changed copy, and throws
 * {@link RejoinException} BAD_ARGUMENT for what can't be.
 */
public final class Sgd extends Optimizer {
  private static final long serialVersionUID = 1L;

  private final double learningRate;
  private final double l1;
  private final double l2;

  /** With the learning rate 0.1, and neither l1 nor l2. */
  public Sgd() {
    this(0.1, 0, 0);
  }

  private Sgd(double learningRate, double l1, double l2) {
    this.learningRate = Checks.positive("learningRate", learningRate);
    this.l1 = Checks.notNegative("l1", l1);
    this.l2 = Checks.notNegative("l2", l2);
  }

  /** By how much of the gradient a step goes; above 0. */
  public Sgd learningRate(double learningRate) {
    return new Sgd(learningRate, l1, l2);
  }

  /** The weight of the coefficients' absolute values, which makes many of them 0; at least 0. */
  public Sgd l1(double l1) {
    return new Sgd(learningRate, l1, l2);
  }

  /** The weight of half the coefficients' squares; at least 0. */
  public Sgd l2(double l2) {
    return new Sgd(learningRate, l1, l2);
  }

  @Override
  ModelKind kind() {
    return ModelKind.LOGISTIC_REGRESSION_SGD;
  }

  @Override
  int states() {
    return 0;
  }

  @Override
  void step(LogisticRegressionModel model, double[] gradient, double weight) {
    double[] coefficients = model.all();
    for (int i = 0; i < coefficients.length; i++) {
      boolean penalized = i < model.features();
      double decay = penalized ? l2 * coefficients[i] : 0;
      double moved = coefficients[i] - learningRate * (gradient[i] / weight + decay);
      double shrunk = Math.max(0, Math.abs(moved) - learningRate * l1);
      coefficients[i] = penalized ? Math.signum(moved) * shrunk : moved;
    }
  }
}
