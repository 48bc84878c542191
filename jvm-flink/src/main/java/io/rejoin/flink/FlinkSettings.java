package io.rejoin.flink;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.Setting;
import io.rejoin.settings.SettingTable;
import io.rejoin.settings.SettingType;
import io.rejoin.settings.SettingValues;
import io.rejoin.xgboost.XgboostSettings;
import java.util.List;
import java.util.Map;

/** The settings {@code rejoin.*} of a Flink job, read and checked when the job is built. */
final class FlinkSettings {
  static final Setting BATCH_ROWS =
      Setting.of(
          "batch.rows",
          SettingType.integer(1, Integer.MAX_VALUE),
          "1000",
          "rows of one rank in a batch, at most");

  static final Setting BATCH_WAIT =
      Setting.of(
              "batch.wait",
              SettingType.TIME_OR_NONE,
              "0",
              "how long a batch waits for its rows before it goes on with those that are there;"
                  + " `0`: until it has all, or the input has ended. While one rank waits, all do,"
                  + " and so does Flink's checkpoint if their inputs are full. With a time, the"
                  + " clock decides which rows are in which batch: each is trained on once, and two"
                  + " runs differ; the first batch of a restarted rank doesn't wait")
          .withDefault("0", "`0` if all inputs are bounded, else `100ms`");

  static final Setting BUFFER_BATCHES =
      Setting.of(
          "buffer.batches",
          SettingType.integer(1, 10_000),
          "4",
          "batches of rows that a rank keeps ready; with more, its input waits");

  static final Setting EMIT_VERSIONS =
      Setting.of(
          "emit.versions",
          SettingType.integer(0, Integer.MAX_VALUE),
          "0",
          "every so many versions the model goes downstream; 0: only as `rejoin.emit.interval` says"
              + " and at the end");

  static final Setting EMIT_INTERVAL =
      Setting.of(
          "emit.interval",
          SettingType.TIME,
          "1s",
          "the model goes downstream when so long a time has gone by since it last did");

  static final Setting ALLOW_REGION_RESTART =
      Setting.of(
          "allow-region-restart",
          SettingType.FLAG,
          "false",
          "allows edges and schedulers with which Flink restarts all subtasks when one is lost,"
              + " from its last checkpoint");

  static final Setting SLOT_SHARING_GROUP =
      Setting.of(
              "slot-sharing-group",
              SettingType.TEXT,
              "",
              "slot sharing group of the ranks, so that they and what follows them have slots of"
                  + " their own ([Slots](#slots))")
          .withDefault("", "that of the input");

  /**
   * Of RejoinXGBoost alone; the agents of other trainers refuse it, so it goes to no agent from
   * here.
   */
  static final Setting HOOK =
      XgboostSettings.HOOK
          .withMeaning(
              "of `RejoinXGBoost`: serves XGBoost's collectives by Rejoin's own, where the"
                  + " libraries of all ranks allow it; `off` leaves them to XGBoost and the bridge"
                  + " ([xgboost.md](xgboost.md)). The model is the same. The JobManager's log says"
                  + " which way a training has gone, and why")
          .toAgent(null);

  static final Setting CHECKPOINT_ROUNDS =
      XgboostSettings.CHECKPOINT_ROUNDS.withMeaning(
          "of `RejoinXGBoost`: rounds per checkpoint; 0 decides by the sizes of model and input,"
              + " so that checkpoints take about 1.5 % of the time. A restarted rank computes the"
              + " rounds since the last one again: with 1 never more than one. Up to XGBoost 3.2"
              + " with sampling it is part of the result");

  static final Setting TRACKER_HOST =
      Setting.of(
              "tracker.host",
              SettingType.TEXT,
              "",
              "address of the JobManager that TaskManagers reach")
          .withDefault(
              "",
              "the JobManager's, as TaskManagers know it; where it isn't known, as with high"
                  + " availability, that of its host's name");

  static final Setting FAULTS =
      Setting.of(
              "faults",
              SettingType.TEXT,
              "",
              "faults at exact moments, for tests (`io.rejoin.Faults`)")
          .withDefault("", "none");

  static final SettingTable TABLE =
      new SettingTable(
          "rejoin.",
          "docs/flink.md",
          List.of(
              BATCH_ROWS,
              BATCH_WAIT,
              BUFFER_BATCHES,
              EMIT_VERSIONS,
              EMIT_INTERVAL,
              CommonSettings.CALL_TIMEOUT,
              ALLOW_REGION_RESTART,
              SLOT_SHARING_GROUP,
              CHECKPOINT_ROUNDS,
              HOOK,
              CommonSettings.HEARTBEAT,
              CommonSettings.LOST_AFTER,
              CommonSettings.MEMBERS_TIMEOUT,
              CommonSettings.TRACKER_TIMEOUT,
              CommonSettings.LEASE,
              TRACKER_HOST,
              CommonSettings.TRACKER_PORTS,
              CommonSettings.AGENT_PORTS,
              CommonSettings.LOG_MEMORY,
              CommonSettings.LOG_DISK,
              CommonSettings.ENCRYPT,
              CommonSettings.EVENTS.withMeaning(
                  "folder of the JobManager's machine for event logs, from which `rejoin timeline`"
                      + " draws what each rank did when ([below](#metrics-and-logs)). Ranks then"
                      + " report how they spend their time"),
              CommonSettings.LOG_LEVEL,
              FAULTS));

  private FlinkSettings() {}

  /** A default, in milliseconds or bytes where it is a time or a size. */
  static long defaultNumber(Setting setting) {
    return TABLE.read(Map.of(), Map.of()).number(setting);
  }

  /** What is set in such a configuration, for inputs that are all bounded, or not. */
  static SettingValues of(Map<String, String> configuration, boolean bounded) {
    return TABLE.read(configuration, Map.of(BATCH_WAIT, bounded ? "0" : "100ms"));
  }

  /** The same for XGBoost's agents. */
  static SettingValues ofXgboost(Map<String, String> configuration) {
    SettingValues values = of(configuration, true);
    return values.with(XgboostSettings.HOOK, values.text(HOOK));
  }
}
