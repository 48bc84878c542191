/**
 * Training with XGBoost4J that survives the death of a rank. Knows no framework: a framework that
 * has matrices can use it.
 */
package io.rejoin.xgboost;
