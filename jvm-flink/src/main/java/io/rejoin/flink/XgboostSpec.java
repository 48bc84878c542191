package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import io.rejoin.xgboost.CheckpointRhythm;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostSettings;
import io.rejoin.xgboost.XgboostVersion;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/** What XGBoost is to train, as the user has said it; the same at all ranks. */
final class XgboostSpec implements Serializable {
  private static final long serialVersionUID = 1L;

  final XgboostColumns columns;
  final HashMap<String, Object> parameters;
  final int rounds;
  int earlyStoppingRounds;
  float missing = Float.NaN;

  XgboostSpec(Map<String, ?> parameters, int rounds) {
    this(new XgboostColumns(), parameters, rounds);
    // A slot is meant for one thread, and XGBoost would take all of the machine's processors.
    this.parameters.putIfAbsent("nthread", 1);
  }

  private XgboostSpec(XgboostColumns columns, Map<String, ?> parameters, int rounds) {
    this.columns = columns;
    this.parameters = new HashMap<>(parameters);
    this.rounds = rounds;
  }

  /** What is said later doesn't change it. */
  XgboostSpec copy() {
    XgboostSpec copy = new XgboostSpec(columns.copy(), parameters, rounds);
    copy.earlyStoppingRounds = earlyStoppingRounds;
    copy.missing = missing;
    return copy;
  }

  /** What the ranks of a gang train. */
  TrainingSpec training(int world, GangRows rows, SettingValues settings) {
    CheckpointRhythm rhythm =
        CheckpointRhythm.of(
                XgboostVersion.loaded(),
                (int) settings.number(XgboostSettings.CHECKPOINT_ROUNDS),
                rows.mostBytes)
            .withLogs(settings.number(CommonSettings.LOG_MEMORY), rows.mostRanksOfProcess);
    return new TrainingSpec(world, rounds, parameters, rhythm).earlyStopping(earlyStoppingRounds);
  }

  /**
   * Looks at what can be known at once.
   *
   * @param world how many ranks there are
   * @throws RejoinException BAD_ARGUMENT with what is missing, or of no use
   */
  void check(int world) {
    require(columns.features.length > 0, "features: name at least one column");
    require(columns.label != null, "label: name its column");
    require(rounds > 0, "rounds: expected a number above 0, not " + rounds);
    require(
        earlyStoppingRounds >= 0,
        "earlyStopping: expected 0 rounds or more, not " + earlyStoppingRounds);
    TrainingSpec.check(world, parameters);
    boolean ranks = String.valueOf(parameters.get("objective")).startsWith("rank:");
    require(
        !ranks || columns.isGrouped(),
        "the objective is "
            + parameters.get("objective")
            + ": name the column of query groups (group)");
    require(
        ranks || !columns.isGrouped(),
        "group: query groups are for objectives rank:*, and the objective is "
            + parameters.getOrDefault("objective", "XGBoost's default")
            + ", with which XGBoost takes none: leave group out");
  }

  private static void require(boolean holds, String message) {
    if (!holds) {
      throw new RejoinException(RejoinException.Code.BAD_ARGUMENT, message);
    }
  }
}
