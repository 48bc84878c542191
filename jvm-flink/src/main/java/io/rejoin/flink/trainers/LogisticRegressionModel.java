package io.rejoin.flink.trainers;

import java.io.Serializable;
import java.util.Arrays;

/** What an {@link OnlineLogisticRegression} has learned. */
public final class LogisticRegressionModel implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int features;
  private final double[] coefficients;
  private final double[][] states;

  /**
   * With arrays that it keeps.
   *
   * @param coefficients of the features, and after them the intercept, if there is one
   * @param states what the optimizer keeps of them, each as long as the coefficients
   */
  LogisticRegressionModel(int features, double[] coefficients, double[][] states) {
    this.features = features;
    this.coefficients = coefficients;
    this.states = states;
  }

  /** One for each feature. */
  public double[] coefficients() {
    return Arrays.copyOf(coefficients, features);
  }

  /** 0 where the trainer learns none. */
  public double intercept() {
    return coefficients.length > features ? coefficients[features] : 0;
  }

  /**
   * How likely the label 1 is, from 0 to 1.
   *
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for another number of features, or one that
   *     isn't finite
   */
  public double predictProbability(double[] row) {
    Checks.applied(row, features);
    return probability(row);
  }

  /** The likelier label, 0 or 1; 1 for a probability of one half. */
  public double predict(double[] row) {
    return predictProbability(row) >= 0.5 ? 1 : 0;
  }

  /** The same for a row that was checked. */
  double probability(double[] row) {
    double margin = intercept();
    for (int i = 0; i < features; i++) {
      margin += coefficients[i] * row[i];
    }
    // StrictMath has the same bits on every machine, as a rank that trains again elsewhere needs.
    return 1 / (1 + StrictMath.exp(-margin));
  }

  int features() {
    return features;
  }

  /** The array of coefficients itself, with the intercept. */
  double[] all() {
    return coefficients;
  }

  double[] state(int number) {
    return states[number];
  }

  /** Coefficients and states. */
  double[][] parts() {
    double[][] parts = new double[1 + states.length][];
    parts[0] = coefficients;
    System.arraycopy(states, 0, parts, 1, states.length);
    return parts;
  }
}
