/**
 * Rejoin's core in the JVM: agent, tracker and members. It knows neither Spark nor Flink, and
 * XGBoost only in its own package.
 */
package io.rejoin;
