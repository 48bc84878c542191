package io.rejoin.flink.trainers;

import io.rejoin.flink.HashedRow;
import java.io.Serializable;
import java.util.Arrays;

/**
 * A row that the trainers of this package train on; a POJO to Flink. {@link FromTable} makes such
 * ones of a Table's rows.
 */
public final class LabeledRow implements HashedRow, Serializable {
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

  /**
   * By the rounds of XXH64 (Collet, xxhash_spec.md), in four lanes, over the bits of all numbers;
   * every NaN has the same, as Flink's serializer writes it.
   */
  @Override
  public long contentHash() {
    // A row without features is refused with its place when it is trained on.
    double[] numbers = features == null ? new double[0] : features;
    long one = numbers.length;
    long two = Double.doubleToLongBits(label);
    long three = Double.doubleToLongBits(weight);
    long four = 0;
    int i = 0;
    for (; i + 3 < numbers.length; i += 4) {
      one = round(one, numbers[i]);
      two = round(two, numbers[i + 1]);
      three = round(three, numbers[i + 2]);
      four = round(four, numbers[i + 3]);
    }
    for (; i < numbers.length; i++) {
      four = round(four, numbers[i]);
    }
    return round(round(round(one, two), three), four);
  }

  private static long round(long hash, double number) {
    return round(hash, Double.doubleToLongBits(number));
  }

  private static long round(long hash, long bits) {
    return Long.rotateLeft(hash + bits * 0xC2B2AE3D27D4EB4FL, 31) * 0x9E3779B185EBCA87L;
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
