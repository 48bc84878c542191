package io.rejoin.xgboost;

import java.util.Map;
import ml.dmlc.xgboost4j.java.Booster;
import ml.dmlc.xgboost4j.java.Communicator;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.IEvaluation;
import ml.dmlc.xgboost4j.java.IObjective;
import ml.dmlc.xgboost4j.java.XGBoost;

/**
 * Looks for the members of XGBoost4J that the training loop calls, so that a missing one is named
 * before any work.
 */
final class XgboostMembers {
  private XgboostMembers() {}

  /**
   * Checks them all.
   *
   * @throws io.rejoin.RejoinException INCOMPATIBLE with the name of the first that is missing
   */
  static void check(XgboostVersion version) {
    version.need(Booster.class, "update", DMatrix.class, int.class);
    version.need(Booster.class, "update", DMatrix.class, int.class, IObjective.class);
    version.need(
        Booster.class, "evalSet", DMatrix[].class, String[].class, int.class, float[].class);
    version.need(
        Booster.class,
        "evalSet",
        DMatrix[].class,
        String[].class,
        IEvaluation.class,
        float[].class);
    version.need(Booster.class, "setAttr", String.class, String.class);
    version.need(Booster.class, "setParams", Map.class);
    version.need(Booster.class, "toByteArray", String.class);
    version.need(Booster.class, "dispose");
    BatchMatrix.check(version);
    version.need(Communicator.class, "init", Map.class);
    version.need(Communicator.class, "shutdown");
    version.need(Communicator.class, "getRank");
    version.need(Communicator.class, "getWorldSize");
    // Hadoop, which another of its methods mentions, need not be there.
    version.needStatic(XGBoost.class, "loadModel", Booster.class, byte[].class);
    version.needStatic(
        XGBoost.class,
        "isMaximizeEvaluation",
        boolean.class,
        String.class,
        String[].class,
        Map.class);
    version.needStatic(
        XGBoost.class,
        "train",
        Booster.class,
        DMatrix.class,
        Map.class,
        int.class,
        Map.class,
        float[][].class,
        IObjective.class,
        IEvaluation.class,
        int.class);
  }
}
