package io.rejoin.xgboost;

import io.rejoin.RejoinException;
import java.io.Serializable;
import java.util.Collection;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import ml.dmlc.xgboost4j.java.IEvaluation;
import ml.dmlc.xgboost4j.java.IObjective;

/** What all ranks of a job train: the same at every rank. */
public final class TrainingSpec implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final String NUMBER = "\\d{1,9}";

  private final int world;
  private final int rounds;
  private final HashMap<String, Object> parameters;
  private final CheckpointRhythm rhythm;
  private int earlyStoppingRounds;
  private boolean checkpointsOnNotice;
  private IObjective objective;
  private IEvaluation evaluation;

  /**
   * For so many ranks and rounds.
   *
   * @param world how many ranks there are; 0 where that may change
   * @param parameters XGBoost's, by its own names; {@code seed_per_iteration} is set to true,
   *     without it a restarted rank would draw other samples
   */
  public TrainingSpec(
      int world, int rounds, Map<String, Object> parameters, CheckpointRhythm rhythm) {
    this.world = world;
    this.rounds = rounds;
    this.parameters = new HashMap<>(parameters);
    this.parameters.put("seed_per_iteration", "true");
    this.rhythm = rhythm;
  }

  /**
   * Looks at XGBoost's parameters before any work.
   *
   * @param world the most ranks that there may be
   * @throws RejoinException BAD_ARGUMENT for those with which a training can't go on from a
   *     checkpoint, that can't be distributed, or that XGBoost4J can't be given
   */
  public static void check(int world, Map<String, ?> parameters) {
    parameters.forEach(
        (name, value) -> {
          if (value == null) {
            throw refused(name + " is null: give a value, or leave it out");
          }
        });
    String unbiased = String.valueOf(parameters.get("lambdarank_unbiased"));
    if (unbiased.equalsIgnoreCase("true") || unbiased.equals("1")) {
      throw refused(
          "lambdarank_unbiased is true: XGBoost trains such a model in one piece alone, and a rank"
              + " that comes back goes on from the checkpoint's; expected false");
    }
    if (world > 1 && String.valueOf(parameters.get("booster")).equals("gblinear")) {
      throw refused(
          "booster is \"gblinear\", which XGBoost doesn't distribute: each of "
              + world
              + " ranks would have a model of its own rows. Train it in one rank, or as trees");
    }
    refuseSeveralMetrics(parameters.get("eval_metric"));
  }

  /**
   * XGBoost4J makes one text of a parameter's value, and XGBoost takes that for a metric's name.
   */
  private static void refuseSeveralMetrics(Object metric) {
    if (metric instanceof Collection || (metric != null && metric.getClass().isArray())) {
      throw refused(
          "eval_metric is a list or an array, and XGBoost4J takes no more than one: give one metric"
              + " as a text, the one that early stopping is to go by");
    }
  }

  private static RejoinException refused(String text) {
    return new RejoinException(RejoinException.Code.BAD_ARGUMENT, text);
  }

  /**
   * Stops when the last matrix's score has not improved for so many rounds; 0 (the default) is
   * never.
   */
  public TrainingSpec earlyStopping(int earlyStoppingRounds) {
    this.earlyStoppingRounds = earlyStoppingRounds;
    return this;
  }

  /**
   * Whether ranks take a checkpoint before its turn when the framework says that hosts will go.
   * They then ask each other after each round that isn't followed by a checkpoint, which costs one
   * small broadcast. Without effect where XGBoost's collectives aren't served by Rejoin's own, and
   * up to XGBoost 3.2, where the rhythm of checkpoints is a part of the result.
   */
  public TrainingSpec checkpointsOnNotice(boolean checkpointsOnNotice) {
    this.checkpointsOnNotice = checkpointsOnNotice;
    return this;
  }

  /** The user's objective and evaluation; null for XGBoost's own. */
  public TrainingSpec custom(IObjective objective, IEvaluation evaluation) {
    this.objective = objective;
    this.evaluation = evaluation;
    return this;
  }

  /** What a rank that takes part must agree on; another text is refused at the rendezvous. */
  public String terms(XgboostVersion version) {
    Map<String, String> texts = new TreeMap<>();
    parameters.forEach((key, value) -> texts.put(key, String.valueOf(value)));
    return "xgboost="
        + version
        + ";wire="
        + version.wire()
        + ";checkpoints="
        + rhythm
        + (checkpointsOnNotice ? "-or-on-notice" : "")
        + ";rounds="
        + rounds
        + ";stop="
        + earlyStoppingRounds
        + ";parameters="
        + Integer.toHexString(texts.hashCode());
  }

  int world() {
    return world;
  }

  /** How many rounds are trained, unless it stops early. */
  public int rounds() {
    return rounds;
  }

  int earlyStoppingRounds() {
    return earlyStoppingRounds;
  }

  boolean checkpointsOnNotice() {
    return checkpointsOnNotice;
  }

  CheckpointRhythm rhythm() {
    return rhythm;
  }

  IObjective objective() {
    return objective;
  }

  IEvaluation evaluation() {
    return evaluation;
  }

  /** A copy, because XGBoost4J may change what it is given. */
  Map<String, Object> parameters() {
    return new HashMap<>(parameters);
  }

  /**
   * Those to set on a Booster that was loaded. Its model has the base score: set again, from 3.1
   * on, the one number would take the place of those that a model of several outputs has.
   */
  Map<String, Object> parametersOfLoaded() {
    Map<String, Object> map = parameters();
    map.remove("base_score");
    return map;
  }

  /**
   * Whether the matrix is sketched lazily in the first update: then one discarded update belongs to
   * the start. {@code approx} sketches in every round, but in the first one alone where the
   * objective's second derivatives are constant; {@code exact} and {@code gblinear} never.
   */
  boolean sketchesLazily() {
    String method = text("tree_method", "hist");
    return !text("booster", "gbtree").equals("gblinear") && !method.equals("exact");
  }

  /**
   * Parameters of the discarded update: {@code max_bin} and {@code tree_method} are the real ones,
   * the tree is a stump.
   */
  Map<String, Object> warmUpParameters() {
    Map<String, Object> map = parameters();
    map.put("max_depth", "1");
    map.put("num_parallel_tree", "1");
    return map;
  }

  /**
   * The objective of the discarded update: {@code approx} sketches with its second derivatives. For
   * other methods it need not be asked.
   */
  IObjective warmUpObjective() {
    return text("tree_method", "hist").equals("approx") ? objective : null;
  }

  /**
   * Whether the metrics of a round are printed at the driver, as XGBoost4J's own loop does it:
   * those of each round, of every n-th one with {@code verbose_eval} n, and of none where that is
   * false or 0, or {@code silent} is true or another number than 0.
   */
  boolean prints(int round) {
    String silent = text("silent", "0");
    if (silent.equals("true") || (silent.matches(NUMBER) && !silent.matches("0+"))) {
      return false;
    }
    String every = text("verbose_eval", "1");
    if (!every.matches(NUMBER)) {
      return !every.equals("false");
    }
    int rounds = Integer.parseInt(every);
    return rounds > 0 && round % rounds == 0;
  }

  private String text(String key, String otherwise) {
    Object value = parameters.get(key);
    return value == null ? otherwise : value.toString().toLowerCase(Locale.ROOT);
  }
}
