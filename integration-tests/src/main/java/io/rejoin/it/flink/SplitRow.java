package io.rejoin.it.flink;

import java.util.SplittableRandom;

/** A row that follows from its split and its number there; a POJO to Flink. */
public final class SplitRow {
  private int split;
  private long number;
  private double label;
  private double[] features = {};

  /** An empty one, for Flink's serializer. */
  public SplitRow() {}

  /**
   * The row of this number, from 0, in this split: features between -1 and 1, and a label, 0 or 1,
   * that mostly follows from them.
   */
  public static SplitRow of(int split, long number, int features) {
    SplittableRandom random = new SplittableRandom(31L * number + split);
    SplitRow row = new SplitRow();
    row.split = split;
    row.number = number;
    row.features = new double[features];
    double score = 0;
    for (int i = 0; i < features; i++) {
      row.features[i] = random.nextDouble(-1, 1);
      score += i % 2 == 0 ? row.features[i] : -0.5 * row.features[i];
    }
    row.label = score + random.nextDouble(-0.3, 0.3) > 0 ? 1 : 0;
    return row;
  }

  public int getSplit() {
    return split;
  }

  public void setSplit(int split) {
    this.split = split;
  }

  /** Its number in the split, from 0. */
  public long getNumber() {
    return number;
  }

  public void setNumber(long number) {
    this.number = number;
  }

  /** 0 or 1. */
  public double getLabel() {
    return label;
  }

  public void setLabel(double label) {
    this.label = label;
  }

  public double[] getFeatures() {
    return features;
  }

  public void setFeatures(double[] features) {
    this.features = features;
  }

  @Override
  public String toString() {
    return split + ":" + number;
  }
}
