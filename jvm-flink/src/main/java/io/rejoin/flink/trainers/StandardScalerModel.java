package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;
import java.io.Serializable;

/** Mean and variance of each feature of all rows that an {@link OnlineStandardScaler} has seen. */
public final class StandardScalerModel implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final double EPSILON = Math.ulp(1.0);

  private final double[] mean;
  // Sums of weighted squares of the distances from the mean.
  private final double[] squares;
  private double weight;

  StandardScalerModel(int features) {
    this(0, new double[features], new double[features]);
  }

  StandardScalerModel(double weight, double[] mean, double[] squares) {
    this.weight = weight;
    this.mean = mean;
    this.squares = squares;
  }

  /** The sum of the weights of all rows; their number where each has the weight 1. */
  public double weight() {
    return weight;
  }

  /** The mean of each feature; zeros before the first row. */
  public double[] mean() {
    return mean.clone();
  }

  /** The variance of each feature: of the population, divided by the weight; at first zeros. */
  public double[] variance() {
    double[] variance = new double[mean.length];
    for (int i = 0; i < mean.length; i++) {
      variance[i] = variance(i);
    }
    return variance;
  }

  /**
   * What each feature is divided by: the standard deviation; 1 for a feature that can't be told
   * from a constant one by scikit-learn's bound on rounding (`_is_constant_feature`).
   */
  public double[] scale() {
    double[] scale = new double[mean.length];
    for (int i = 0; i < mean.length; i++) {
      scale[i] = scale(i);
    }
    return scale;
  }

  /**
   * The features as numbers of standard deviations from the mean, in a new array.
   *
   * @throws RejoinException BAD_ARGUMENT for another number of features, or one that isn't finite;
   *     BAD_STATE before the first row with a weight
   */
  public double[] transform(double[] features) {
    Checks.applied(features, mean.length);
    if (weight == 0) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE,
          "a model that has seen a row expected, one without any seen: there is nothing to scale"
              + " by. Wait for a later version");
    }
    double[] scaled = new double[mean.length];
    for (int i = 0; i < mean.length; i++) {
      scaled[i] = (features[i] - mean[i]) / scale(i);
    }
    return scaled;
  }

  /** The array itself, from which the next batch's distances are measured. */
  double[] center() {
    return mean;
  }

  double[] squares() {
    return squares;
  }

  /** Adds rows by their weight and, of their distances from {@link #center}, sums and squares. */
  void add(double rows, double[] sums, int firstSum, int firstSquare) {
    weight += rows;
    for (int i = 0; i < mean.length; i++) {
      double sum = sums[firstSum + i];
      mean[i] += sum / weight;
      // By rounding alone it could be negative.
      squares[i] += Math.max(0, sums[firstSquare + i] - sum * sum / weight);
    }
  }

  private double variance(int feature) {
    return weight == 0 ? 0 : squares[feature] / weight;
  }

  private double scale(int feature) {
    double variance = variance(feature);
    double rounding = weight * mean[feature] * EPSILON;
    boolean constant = variance <= weight * EPSILON * variance + rounding * rounding;
    return constant ? 1 : Math.sqrt(variance);
  }
}
