package io.rejoin.xgboost;

import io.rejoin.RejoinException;
import java.lang.reflect.Method;
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
   * @throws RejoinException INCOMPATIBLE with the name of the first that is missing
   */
  static void check(XgboostVersion version) {
    need(version, Booster.class, "update", DMatrix.class, int.class);
    need(version, Booster.class, "update", DMatrix.class, int.class, IObjective.class);
    need(
        version,
        Booster.class,
        "evalSet",
        DMatrix[].class,
        String[].class,
        int.class,
        float[].class);
    need(
        version,
        Booster.class,
        "evalSet",
        DMatrix[].class,
        String[].class,
        IEvaluation.class,
        float[].class);
    need(version, Booster.class, "setAttr", String.class, String.class);
    need(version, Booster.class, "setParams", Map.class);
    need(version, Booster.class, "toByteArray", String.class);
    need(version, Booster.class, "dispose");
    need(version, Communicator.class, "init", Map.class);
    need(version, Communicator.class, "shutdown");
    need(version, Communicator.class, "getRank");
    need(version, Communicator.class, "getWorldSize");
    need(version, XGBoost.class, "loadModel", byte[].class);
    need(version, XGBoost.class, "isMaximizeEvaluation", String.class, String[].class, Map.class);
    need(
        version,
        XGBoost.class,
        "train",
        DMatrix.class,
        Map.class,
        int.class,
        Map.class,
        float[][].class,
        IObjective.class,
        IEvaluation.class,
        int.class);
  }

  /** The method of this name and these parameters. */
  static Method need(XgboostVersion version, Class<?> owner, String name, Class<?>... parameters) {
    try {
      return owner.getMethod(name, parameters);
    } catch (NoSuchMethodException e) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "XGBoost4J "
              + version
              + " has no "
              + e.getMessage()
              + "; supported are "
              + XgboostVersion.supported()
              + " as they come from Maven Central",
          e);
    }
  }
}
