/**
 * The tab "Rejoin" in Spark's web UI and in the history server. Nothing in it is for users' code:
 * what is public is so because Spark, or another package of this jar, makes it.
 */
package io.rejoin.spark.ui;
