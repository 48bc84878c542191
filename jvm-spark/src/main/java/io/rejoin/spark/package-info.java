/**
 * XGBoost training in Spark that survives a killed executor: {@link
 * io.rejoin.spark.RejoinEstimator} around a stock estimator.
 */
package io.rejoin.spark;
