package io.rejoin.flink.trainers;

import java.io.Serializable;
import java.util.Arrays;

/**
 * A row that the trainers of this package train on; a POJO to Flink. {@link FromTable} makes such
 * ones of a Table's rows.
 */
public final class LabeledRow implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Finite numbers, as many as the trainer was made for. */
  public double[] features = {};

  /** What is learned; NaN where there is none, as for clusters. */
  public double label = Double.NaN;

  /** How much the row counts, from 0: with the weight 2 as much as two rows of the weight 1. */
  public double weight = 1;

  /** One without features and label, of the weight 1, for Flink's serializer. */
  public LabeledRow() {}

  /** A row without a label, of the weight 1. */
  public LabeledRow(double[] features) {
    this(features, Double.NaN, 1);
  }

  /** A row with its label, of the weight 1. */
  public LabeledRow(double[] features, double label) {
    this(features, label, 1);
  }

  /** A row with its label and weight. */
  public LabeledRow(double[] features, double label, double weight) {
    this.features = features;
    this.label = label;
    this.weight = weight;
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof LabeledRow)) {
      return false;
    }
    LabeledRow that = (LabeledRow) other;
    return Arrays.equals(features, that.features)
        && Double.compare(label, that.label) == 0
        && Double.compare(weight, that.weight) == 0;
  }

  @Override
  public int hashCode() {
    return 31 * (31 * Arrays.hashCode(features) + Double.hashCode(label)) + Double.hashCode(weight);
  }

  @Override
  public String toString() {
    return "features " + Arrays.toString(features) + ", label " + label + ", weight " + weight;
  }
}
