package io.rejoin.xgboost;

/**
 * Some rows of a matrix in the form in which XGBoost4J's native code takes rows from the JVM, from
 * an object with fields of these names. It only reads the arrays, and copies them.
 */
public final class MatrixBatch {
  private final long[] rowOffset;
  private final float[] weight;
  private final float[] label;
  private final int[] featureIndex;
  private final float[] featureValue;
  private final int featureCols;

  /**
   * Rows in compressed form.
   *
   * @param rowOffset where each row begins in the next but two arrays, and at last where they end
   * @param weight of each row
   * @param label of each row
   * @param featureIndex the column of each value
   * @param featureValue the values, of which some may be missing ones
   * @param featureCols how many columns there are, in all batches the same
   */
  public MatrixBatch(
      long[] rowOffset,
      float[] weight,
      float[] label,
      int[] featureIndex,
      float[] featureValue,
      int featureCols) {
    this.rowOffset = rowOffset;
    this.weight = weight;
    this.label = label;
    this.featureIndex = featureIndex;
    this.featureValue = featureValue;
    this.featureCols = featureCols;
  }

  /** One that XGBoost refuses: no row, but a label. */
  static MatrixBatch refused() {
    float[] one = {0};
    return new MatrixBatch(new long[] {0}, one, one, new int[0], new float[0], 0);
  }

  /** How many rows. */
  public int rows() {
    return rowOffset.length - 1;
  }

  @Override
  public String toString() {
    return rows()
        + " rows of "
        + featureCols
        + " columns, with "
        + featureIndex.length
        + " values ("
        + featureValue.length
        + "), "
        + label.length
        + " labels and "
        + weight.length
        + " weights";
  }
}
