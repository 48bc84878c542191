package io.rejoin.xgboost;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.Setting;
import io.rejoin.settings.SettingTable;
import io.rejoin.settings.SettingType;
import io.rejoin.settings.SettingValues;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The settings of XGBoost trainings, whatever the framework. */
public final class XgboostSettings {
  private XgboostSettings() {}

  /** How many rounds lie between two checkpoints; 0 lets Rejoin decide. */
  public static final Setting CHECKPOINT_ROUNDS =
      Setting.of(
          "checkpoint.rounds",
          SettingType.integer(0, Integer.MAX_VALUE),
          "0",
          "rounds per checkpoint; 0 decides by the sizes of model and input, so that checkpoints"
              + " take about 1.5 % of the time. A restarted rank computes the rounds since the last"
              + " one again: with 1 never more than one. Up to XGBoost 3.2 with sampling it is part"
              + " of the result");

  /** Whether XGBoost's own collectives are served by Rejoin: {@code auto} or {@code off}. */
  public static final Setting HOOK =
      Setting.of(
              "hook",
              SettingType.choice("auto", "off"),
              "auto",
              "serves XGBoost's collectives by Rejoin's own, where the libraries of all ranks allow"
                  + " it; `off` leaves them to XGBoost and the bridge ([xgboost.md](xgboost.md))."
                  + " The model is the same. The driver's log says which way a fit has gone, and"
                  + " why")
          .toAgent("hook");

  /**
   * These and {@link CommonSettings}, by their names without prefix, for a program that has no
   * table of its own.
   *
   * @throws io.rejoin.RejoinException BAD_ARGUMENT with the name, what was seen and what was
   *     expected
   */
  public static SettingValues of(Map<String, String> configuration) {
    List<Setting> all = new ArrayList<>(CommonSettings.ALL);
    all.addAll(List.of(CHECKPOINT_ROUNDS, HOOK));
    SettingTable table = new SettingTable("", "io.rejoin.xgboost.XgboostSettings", all);
    return table.read(configuration, Map.of());
  }
}
