package io.rejoin.spark;

import io.rejoin.xgboost.XgboostVersion;
import ml.dmlc.xgboost4j.scala.Booster;
import ml.dmlc.xgboost4j.scala.spark.ColumnIndices;
import ml.dmlc.xgboost4j.scala.spark.PluginUtils$;
import ml.dmlc.xgboost4j.scala.spark.RuntimeParams;
import ml.dmlc.xgboost4j.scala.spark.TrackerConf;
import ml.dmlc.xgboost4j.scala.spark.XGBoostEstimator;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary$;
import org.apache.spark.sql.Dataset;
import scala.collection.immutable.Map;

/**
 * Looks for the members of the stock estimator that its fit is taken apart into. They are no part
 * of its API, so a missing one is named before any work.
 */
final class StockMembers {
  private StockMembers() {}

  /**
   * Checks them all.
   *
   * @throws io.rejoin.RejoinException INCOMPATIBLE with the first that is missing
   */
  static void check(XgboostVersion version) {
    version.need(XGBoostEstimator.class, "validate", Dataset.class);
    version.need(XGBoostEstimator.class, "preprocess", Dataset.class);
    version.need(XGBoostEstimator.class, "getFeatureNames");
    version.need(XGBoostEstimator.class, "getFeatureTypes");
    for (String column : new String[] {"labelId", "featureId", "weightId", "marginId", "groupId"}) {
      version.need(ColumnIndices.class, column);
    }
    version.need(XGBoostEstimator.class, "getRuntimeParameters", boolean.class, Map.class);
    version.need(XGBoostEstimator.class, "getRuntimeParameters$default$2");
    version.need(XGBoostEstimator.class, "getXGBoostParams");
    version.need(XGBoostEstimator.class, "getEvalDataset");
    version.need(XGBoostEstimator.class, "setEvalDataset", Dataset.class);
    version.need(
        XGBoostEstimator.class, "createModel", Booster.class, XGBoostTrainingSummary.class);
    version.need(XGBoostEstimator.class, "weightCol");
    version.need(XGBoostTrainingSummary$.class, "apply", Map.class);
    version.need(PluginUtils$.class, "isPluginEnabled", Dataset.class);
    version.need(RuntimeParams.class, "numWorkers");
    version.need(RuntimeParams.class, "numRounds");
    version.need(RuntimeParams.class, "earlyStoppingRounds");
    version.need(RuntimeParams.class, "trackerConf");
    version.need(RuntimeParams.class, "runOnGpu");
    version.need(RuntimeParams.class, "obj");
    version.need(RuntimeParams.class, "eval");
    version.need(TrackerConf.class, "hostIp");
    version.need(TrackerConf.class, "port");
    version.need(TrackerConf.class, "timeout");
  }
}
