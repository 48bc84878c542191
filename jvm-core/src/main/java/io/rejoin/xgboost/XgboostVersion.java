package io.rejoin.xgboost;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import ml.dmlc.xgboost4j.java.Booster;
import org.slf4j.LoggerFactory;

/** Which XGBoost is on the class path, how it speaks, and what may be assumed of it. */
public final class XgboostVersion {
  /** Those that were tried on a real cluster with a kill: docs/xgboost.md. */
  private static final List<String> SUPPORTED =
      Collections.unmodifiableList(
          Arrays.asList("3.0.0", "3.0.2", "3.0.4", "3.1.0", "3.1.1", "3.2.0", "3.4.0"));

  /** The system property that lets one other release of XGBoost 3 in, by its name. */
  static final String UNTESTED = "rejoin.xgboost.untested";

  private static final Pattern RELEASE = Pattern.compile("3\\.(\\d{1,4})\\.\\d{1,4}");

  private final String text;
  private final int minor;

  private XgboostVersion(String text, int minor) {
    this.text = text;
    this.minor = minor;
  }

  /**
   * The version that is loaded.
   *
   * @throws RejoinException INCOMPATIBLE for one that isn't supported
   */
  public static XgboostVersion loaded() {
    Properties properties = new Properties();
    try (InputStream in = Booster.class.getResourceAsStream("/xgboost4j-version.properties")) {
      if (in == null) {
        throw new RejoinException(
            RejoinException.Code.INCOMPATIBLE,
            "XGBoost4J's jar has no xgboost4j-version.properties, so its version is unknown;"
                + " supported are "
                + SUPPORTED);
      }
      properties.load(in);
    } catch (IOException e) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE, "XGBoost4J's version can't be read from its jar", e);
    }
    return of(properties.getProperty("version", ""));
  }

  /**
   * Loads XGBoost's native library, which is looked at before a rank joins. Where it can't be
   * loaded so, it is by the first call, and nothing of it is hooked.
   */
  static void load() {
    try {
      Class.forName("ml.dmlc.xgboost4j.java.XGBoostJNI", true, Booster.class.getClassLoader());
    } catch (ClassNotFoundException e) {
      LoggerFactory.getLogger(XgboostVersion.class)
          .info("XGBoost4J's native library isn't loaded before its first use: {}", e.toString());
    }
  }

  /** A version by its name, for instance 3.4.0. */
  static XgboostVersion of(String text) {
    return of(text.trim(), System.getProperty(UNTESTED, ""));
  }

  /** The same, where this other release is let in, too. */
  static XgboostVersion of(String text, String untested) {
    Matcher release = RELEASE.matcher(text);
    boolean isRelease = release.matches();
    if (isRelease && (SUPPORTED.contains(text) || text.equals(untested))) {
      return new XgboostVersion(text, Integer.parseInt(release.group(1)));
    }
    String remedy =
        isRelease
            ? String.format(
                ", or try it by make smoke XGBOOST=%s in Rejoin's sources; where it gives the same"
                    + " model, -D%s=%s lets it in, in all JVMs of a training",
                text, UNTESTED, text)
            : "";
    throw new RejoinException(
        RejoinException.Code.INCOMPATIBLE,
        "XGBoost4J \""
            + text
            + "\" is not supported; use one of the versions "
            + SUPPORTED
            + remedy);
  }

  /**
   * Looks for a public method, so that a missing one is named before any work.
   *
   * @throws RejoinException INCOMPATIBLE when this version has none of this name and parameters
   */
  public void need(Class<?> owner, String name, Class<?>... parameters) {
    try {
      owner.getMethod(name, parameters);
    } catch (NoSuchMethodException e) {
      throw missing(e);
    }
  }

  /**
   * The same for a static method of a class whose other methods may have types that aren't on the
   * class path: a lookup by reflection would load those of all its methods.
   */
  void needStatic(Class<?> owner, String name, Class<?> returned, Class<?>... parameters) {
    try {
      MethodType type = MethodType.methodType(returned, parameters);
      MethodHandles.publicLookup().findStatic(owner, name, type);
    } catch (NoSuchMethodException | IllegalAccessException e) {
      throw missing(e);
    }
  }

  /** The error about a member that is not there. */
  RejoinException missing(ReflectiveOperationException seen) {
    return new RejoinException(
        RejoinException.Code.INCOMPATIBLE,
        "XGBoost4J "
            + text
            + " has no "
            + seen.getMessage()
            + "; supported are "
            + SUPPORTED
            + " as they come from Maven Central",
        seen);
  }

  /** Which of the two wire variants it speaks. */
  public String wire() {
    return keepsBooster() ? "from-3.3" : "until-3.2";
  }

  /**
   * Whether a Booster that was kept trains on exactly as one that was loaded from a checkpoint. Up
   * to 3.2 the samplers' state lives outside the model, so there all ranks have to load at the same
   * rounds.
   */
  public boolean keepsBooster() {
    return minor >= 3;
  }

  @Override
  public String toString() {
    return text;
  }
}
