package io.rejoin.it

import io.rejoin.{Communicator, Reduction}
import io.rejoin.spark.{RejoinEstimator, RejoinSpark}
import ml.dmlc.xgboost4j.scala.spark.{XGBoostClassificationModel, XGBoostClassifier}
import org.apache.spark.ml.{Pipeline, PipelineModel}
import org.apache.spark.ml.evaluation.BinaryClassificationEvaluator
import org.apache.spark.ml.feature.VectorAssembler
import org.apache.spark.ml.tuning.{CrossValidator, CrossValidatorModel, ParamGridBuilder}
import org.apache.spark.sql.{DataFrame, Row}

/** What a user writes in Scala: one source for 2.12 and 2.13, compiled by the build, run by `ScalaIT`. */
object FromScala {

  /** A stock estimator, set up as in XGBoost's own examples. */
  def stock(workers: Int, rounds: Int): XGBoostClassifier =
    new XGBoostClassifier(Map("objective" -> "binary:logistic", "max_depth" -> 4, "seed_per_iteration" -> true))
      .setNumWorkers(workers)
      .setNumRound(rounds)
      .setNthread(1)
      .setMissing(0f)
      .setFeaturesCol("features")
      .setLabelCol("label")

  /** A fit alone; the type of the model follows from that of the estimator. */
  def fit(estimator: XGBoostClassifier, train: DataFrame): XGBoostClassificationModel = {
    val model = new RejoinEstimator(estimator).fit(train)
    model.setThresholds(Array(0.5, 0.5))
    model
  }

  /** As the last stage of a pipeline. */
  def pipeline(estimator: XGBoostClassifier, features: Array[String], train: DataFrame): PipelineModel = {
    val assembler = new VectorAssembler().setInputCols(features).setOutputCol("features")
    new Pipeline().setStages(Array(assembler, new RejoinEstimator(estimator))).fit(train)
  }

  /** A training of one's own: the mean of a column. */
  def mean(column: String, train: DataFrame, workers: Int): Double = {
    val model = RejoinSpark.train(
      train,
      workers,
      (ranks: Communicator, rows: java.lang.Iterable[Row]) => {
        ranks.load()
        val sums = Array(0.0, 0.0)
        rows.forEach { row =>
          sums(0) += row.getAs[Double](column)
          sums(1) += 1
        }
        ranks.allreduce(sums, Reduction.SUM)
        Array(sums(0) / sums(1))
      }
    )
    model(0)
  }

  /** In a cross validation over the stock estimator's parameters. */
  def crossValidation(estimator: XGBoostClassifier, train: DataFrame): CrossValidatorModel = {
    val grid = new ParamGridBuilder()
      .addGrid(estimator.maxDepth, Array(2, 5))
      .addGrid(estimator.eta, Array(0.3))
      .build()
    new CrossValidator()
      .setEstimator(new RejoinEstimator[XGBoostClassificationModel](estimator))
      .setEstimatorParamMaps(grid)
      .setEvaluator(new BinaryClassificationEvaluator())
      .setNumFolds(2)
      .setSeed(3)
      .setParallelism(2)
      .fit(train)
  }
}
