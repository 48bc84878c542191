package io.rejoin.it;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.spark.XGBoostModel;

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

  /** The digest of bytes, in hexadecimal. */
  public static String of(byte[] bytes) {
    try {
      StringBuilder text = new StringBuilder();
      for (byte one : MessageDigest.getInstance("SHA-256").digest(bytes)) {
        text.append(String.format("%02x", one));
      }
      return text.toString();
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every JVM has SHA-256", impossible);
    }
  }
}
