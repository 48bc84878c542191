package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.xgboost.XgboostVersion;
import java.util.Arrays;
import ml.dmlc.xgboost4j.scala.Booster;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.spark.ColumnIndices;
import ml.dmlc.xgboost4j.scala.spark.PluginUtils$;
import ml.dmlc.xgboost4j.scala.spark.RuntimeParams;
import ml.dmlc.xgboost4j.scala.spark.TrackerConf;
import ml.dmlc.xgboost4j.scala.spark.Watches;
import ml.dmlc.xgboost4j.scala.spark.XGBoostEstimator;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary$;
import org.apache.spark.sql.Dataset;
import scala.collection.immutable.Map;

/**
 * Looks for the members of the stock estimator that its fit is taken apart into. They are not
 * promised to anybody, so a missing one is named before any work.
 */
final class StockMembers {
  private StockMembers() {}

  /**
   * Checks them all.
   *
   * @throws RejoinException INCOMPATIBLE with the first that is missing
   */
  static void check(XgboostVersion version) {
    Need need = new Need(version);
    need.method(XGBoostEstimator.class, "validate", Dataset.class);
    need.method(XGBoostEstimator.class, "preprocess", Dataset.class);
    need.method(XGBoostEstimator.class, "toRdd", Dataset.class, ColumnIndices.class);
    need.method(XGBoostEstimator.class, "getRuntimeParameters", boolean.class, Map.class);
    need.method(XGBoostEstimator.class, "getRuntimeParameters$default$2");
    need.method(XGBoostEstimator.class, "getXGBoostParams");
    need.method(XGBoostEstimator.class, "getEvalDataset");
    need.method(XGBoostEstimator.class, "setEvalDataset", Dataset.class);
    need.method(XGBoostEstimator.class, "createModel", Booster.class, XGBoostTrainingSummary.class);
    need.method(XGBoostEstimator.class, "weightCol");
    need.method(XGBoostTrainingSummary$.class, "apply", Map.class);
    need.method(PluginUtils$.class, "isPluginEnabled", Dataset.class);
    need.method(RuntimeParams.class, "numWorkers");
    need.method(RuntimeParams.class, "numRounds");
    need.method(RuntimeParams.class, "earlyStoppingRounds");
    need.method(RuntimeParams.class, "trackerConf");
    need.method(RuntimeParams.class, "runOnGpu");
    need.method(RuntimeParams.class, "obj");
    need.method(RuntimeParams.class, "eval");
    need.method(TrackerConf.class, "hostIp");
    need.method(TrackerConf.class, "port");
    need.method(TrackerConf.class, "timeout");
    need.method(Watches.class, "toMap");
    need.method(Watches.class, "delete");
    need.method(DMatrix.class, "jDMatrix");
  }

  private static final class Need {
    private final XgboostVersion version;

    Need(XgboostVersion version) {
      this.version = version;
    }

    void method(Class<?> owner, String name, Class<?>... parameters) {
      try {
        owner.getMethod(name, parameters);
      } catch (NoSuchMethodException e) {
        throw new RejoinException(
            RejoinException.Code.INCOMPATIBLE,
            "the estimators of XGBoost4J-Spark "
                + version
                + " have no "
                + owner.getName()
                + "."
                + name
                + Arrays.toString(parameters)
                + "; supported are the versions "
                + XgboostVersion.supported()
                + " as they come from Maven Central",
            e);
      }
    }
  }
}
