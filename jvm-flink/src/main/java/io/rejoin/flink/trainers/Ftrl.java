package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;

/**
 * FTRL-Proximal with learning rates per coordinate: McMahan and others, "Ad Click Prediction: a
 * View from the Trenches" (KDD 2013), algorithm 1. Of each coordinate i it keeps z and n, at first
 * 0, and with the gradient g of a batch
 *
 * <pre>
 *   σ = (√(n + g²) - √n) / alpha
 *   z = z + g - σ w
 *   n = n + g²
 *   w = 0                                                if |z| ≤ l1
 *       -(z - sgn(z) l1) / ((beta + √n) / alpha + l2)    otherwise
 * </pre>
 *
 * <p>g is the sum over the batch's rows, each with its weight, so that l1 and l2 weigh as much as
 * in the sum of the losses of all rows, whatever the batches are, and with one row of the weight 1
 * in each batch this is the algorithm itself. An intercept has neither l1 nor l2. Every method
 * gives a changed copy, and throws {@link RejoinException} BAD_ARGUMENT for what can't be.
 */
public final class Ftrl extends Optimizer {
  private static final long serialVersionUID = 1L;

  private final double alpha;
  private final double beta;
  private final double l1;
  private final double l2;

  /** With alpha 0.1, beta 1, and neither l1 nor l2. */
  public Ftrl() {
    this(0.1, 1, 0, 0);
  }

  private Ftrl(double alpha, double beta, double l1, double l2) {
    this.alpha = Checks.positive("alpha", alpha);
    this.beta = Checks.notNegative("beta", beta);
    this.l1 = Checks.notNegative("l1", l1);
    this.l2 = Checks.notNegative("l2", l2);
  }

  /** The learning rate; above 0. The best one depends much on features and rows. */
  public Ftrl alpha(double alpha) {
    return new Ftrl(alpha, beta, l1, l2);
  }

  /** What dampens the first steps; at least 0. 1 is usually good enough. */
  public Ftrl beta(double beta) {
    return new Ftrl(alpha, beta, l1, l2);
  }

  /** The weight of the coefficients' absolute values, which makes many of them 0; at least 0. */
  public Ftrl l1(double l1) {
    return new Ftrl(alpha, beta, l1, l2);
  }

  /** The weight of half the coefficients' squares; at least 0. */
  public Ftrl l2(double l2) {
    return new Ftrl(alpha, beta, l1, l2);
  }

  @Override
  ModelKind kind() {
    return ModelKind.LOGISTIC_REGRESSION_FTRL;
  }

  @Override
  int states() {
    return 2;
  }

  @Override
  void step(LogisticRegressionModel model, double[] gradient, double weight) {
    double[] coefficients = model.all();
    double[] z = model.state(0);
    double[] n = model.state(1);
    for (int i = 0; i < coefficients.length; i++) {
      boolean penalized = i < model.features();
      double g = gradient[i];
      double sigma = (Math.sqrt(n[i] + g * g) - Math.sqrt(n[i])) / alpha;
      z[i] += g - sigma * coefficients[i];
      n[i] += g * g;
      coefficients[i] = penalized ? coefficient(z[i], n[i], l1, l2) : coefficient(z[i], n[i], 0, 0);
    }
  }

  private double coefficient(double z, double n, double l1, double l2) {
    if (Math.abs(z) <= l1) {
      return 0;
    }
    return -(z - Math.signum(z) * l1) / ((beta + Math.sqrt(n)) / alpha + l2);
  }
}
