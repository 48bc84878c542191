package io.rejoin.it.bench;

import java.util.SplittableRandom;

/**
 * Rows that are the same on every machine: features around 0 with one in fifty missing, and a label
 * that depends on all of them with some noise.
 */
final class SyntheticRows {
  private final int columns;
  private final float[] features;
  private final float[] labels;

  private SyntheticRows(int rows, int columns) {
    this.columns = columns;
    this.features = new float[rows * columns];
    this.labels = new float[rows];
  }

  /** Part {@code part} of {@code parts} of so many rows in total. */
  static SyntheticRows of(int total, int columns, int part, int parts) {
    SplittableRandom weightsOf = new SplittableRandom(99);
    double[] weights = weightsOf.doubles(columns, -1, 1).toArray();
    SplittableRandom random = new SplittableRandom(1000 + part);
    int rows = total / parts;
    SyntheticRows made = new SyntheticRows(rows, columns);
    for (int row = 0; row < rows; row++) {
      double sum = 0.7 * (random.nextDouble() + random.nextDouble() - 1);
      for (int column = 0; column < columns; column++) {
        double value = random.nextDouble() + random.nextDouble() + random.nextDouble() - 1.5;
        boolean missing = random.nextInt(50) == 0;
        made.features[row * columns + column] = missing ? Float.NaN : (float) value;
        sum += missing ? 0 : weights[column] * value;
      }
      made.labels[row] = sum > 0 ? 1 : 0;
    }
    return made;
  }

  int rows() {
    return labels.length;
  }

  int columns() {
    return columns;
  }

  /** Row after row, NaN where a value is missing. */
  float[] features() {
    return features;
  }

  float[] labels() {
    return labels;
  }
}
