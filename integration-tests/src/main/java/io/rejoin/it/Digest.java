package io.rejoin.it;

import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.spark.XGBoostModel;
import org.apache.commons.codec.digest.DigestUtils;

/** What two models are compared by: SHA-256 of the Booster's {@code ubj} bytes. */
public final class Digest {
  private Digest() {}

  /** The digest of a model of the stock classes, in hexadecimal. */
  public static String of(Object model) {
    try {
      return of(((XGBoostModel<?>) model).nativeBooster().booster().toByteArray("ubj"));
    } catch (XGBoostError error) {
      throw new IllegalStateException("the model cannot be written: " + error.getMessage(), error);
    }
  }

  public static String of(byte[] bytes) {
    return DigestUtils.sha256Hex(bytes);
  }
}
