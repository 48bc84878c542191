package io.rejoin.it.flink;

import java.util.Arrays;

/**
 * A row for XGBoost that follows from its split and its number there; the same in Flink and in
 * Spark, so it knows neither.
 *
 * @param features some are 0, which a training may take for a missing value
 * @param label 0 or 1
 * @param grade 0 to 3
 * @param weight 1 to 3, the same for a query
 * @param query groups of neighbouring rows, each in one split
 * @param held whether it is for evaluation
 */
public record XgboostRow(
    double[] features, double label, int grade, double weight, long query, boolean held) {
  private static final int FEATURES = 10;
  private static final int ROWS_OF_A_QUERY = 20;

  /** The row of this number, from 0, in this split. */
  public static XgboostRow of(int split, long number) {
    SplitRow row = SplitRow.of(split, number, FEATURES);
    double[] features =
        Arrays.stream(row.getFeatures()).map(one -> Math.abs(one) < 0.2 ? 0 : one).toArray();
    long query = 1_000_000L * split + number / ROWS_OF_A_QUERY;
    int grade = (int) row.getLabel() + (features[0] > 0 ? 1 : 0) + (features[1] > 0.5 ? 1 : 0);
    return new XgboostRow(
        features, row.getLabel(), grade, 1 + query % 3, query, number % 5 == query % 5);
  }
}
