package io.rejoin.it.flink;

import java.util.Map;

/** What is trained of {@link XgboostRow}s, in Flink and in Spark: XGBoost's parameters. */
public enum XgboostKind {
  /** With sampling of rows and columns, and zeros that mean that there is no value. */
  CLASSIFICATION(
      Map.of(
          "objective",
          "binary:logistic",
          "max_depth",
          4,
          "subsample",
          0.7,
          "colsample_bytree",
          0.8)),
  /** Of the grade, with weights, an evaluation set, and an early end. */
  REGRESSION(Map.of("objective", "reg:squarederror", "eta", 0.9, "eval_metric", "rmse")),
  /** Of the rows of a query. */
  RANKING(Map.of("objective", "rank:ndcg", "max_depth", 3));

  /** {@link #REGRESSION} ends when so many rounds have brought nothing. */
  static final int STOPPING_ROUNDS = 3;

  final Map<String, Object> parameters;

  XgboostKind(Map<String, Object> parameters) {
    this.parameters = parameters;
  }
}
