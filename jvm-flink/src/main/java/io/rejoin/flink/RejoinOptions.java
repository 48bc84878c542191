package io.rejoin.flink;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.Setting;
import java.time.Duration;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.MemorySize;

/**
 * The settings {@code rejoin.*} as Flink's options, for the environment's configuration, the
 * cluster's, or that of one trainer. docs/flink.md says what each does.
 */
public final class RejoinOptions {
  /** Rows of one rank in a batch, at most. */
  public static final ConfigOption<Integer> BATCH_ROWS = whole(FlinkSettings.BATCH_ROWS);

  /** How long a batch waits for its rows; no time: until it has all. */
  public static final ConfigOption<Duration> BATCH_WAIT = time(FlinkSettings.BATCH_WAIT);

  /** Batches of rows that a rank keeps ready. */
  public static final ConfigOption<Integer> BUFFER_BATCHES = whole(FlinkSettings.BUFFER_BATCHES);

  /** Every so many versions the model goes downstream. */
  public static final ConfigOption<Integer> EMIT_VERSIONS = whole(FlinkSettings.EMIT_VERSIONS);

  /** After so long a time the model goes downstream. */
  public static final ConfigOption<Duration> EMIT_INTERVAL = time(FlinkSettings.EMIT_INTERVAL);

  /** How long a collective waits for the other ranks. */
  public static final ConfigOption<Duration> CALL_TIMEOUT = time(CommonSettings.CALL_TIMEOUT);

  /** Allows graphs and schedulers with which one death restarts all subtasks. */
  public static final ConfigOption<Boolean> ALLOW_REGION_RESTART =
      flag(FlinkSettings.ALLOW_REGION_RESTART);

  /** Slot sharing group of the ranks; empty for that of their input. */
  public static final ConfigOption<String> SLOT_SHARING_GROUP =
      text(FlinkSettings.SLOT_SHARING_GROUP);

  /** Rounds between two checkpoints of {@link RejoinXGBoost}; 0 decides by itself. */
  public static final ConfigOption<Integer> CHECKPOINT_ROUNDS =
      whole(FlinkSettings.CHECKPOINT_ROUNDS);

  /** Whether XGBoost's collectives are served by Rejoin's own: {@code auto} or {@code off}. */
  public static final ConfigOption<String> HOOK = text(FlinkSettings.HOOK);

  /** Time between two signs of life of a TaskManager's ranks. */
  public static final ConfigOption<Duration> HEARTBEAT = time(CommonSettings.HEARTBEAT);

  /** Silence after which a rank is declared lost. */
  public static final ConfigOption<Duration> LOST_AFTER = time(CommonSettings.LOST_AFTER);

  /** How long a rank may be missing. */
  public static final ConfigOption<Duration> MEMBERS_TIMEOUT = time(CommonSettings.MEMBERS_TIMEOUT);

  /** How long a rank tries to reach the JobManager's tracker at the start. */
  public static final ConfigOption<Duration> TRACKER_TIMEOUT = time(CommonSettings.TRACKER_TIMEOUT);

  /** How long ranks that have lost the JobManager keep what they hold. */
  public static final ConfigOption<Duration> LEASE = time(CommonSettings.LEASE);

  /** The JobManager's address that TaskManagers reach. */
  public static final ConfigOption<String> TRACKER_HOST = text(FlinkSettings.TRACKER_HOST);

  /** Ports of the tracker, at the JobManager. */
  public static final ConfigOption<String> TRACKER_PORTS = text(CommonSettings.TRACKER_PORTS);

  /** Ports of the agents, at the TaskManagers. */
  public static final ConfigOption<String> AGENT_PORTS = text(CommonSettings.AGENT_PORTS);

  /** Memory for logs per TaskManager. */
  public static final ConfigOption<MemorySize> LOG_MEMORY = size(CommonSettings.LOG_MEMORY);

  /** Disk for logs per TaskManager. */
  public static final ConfigOption<MemorySize> LOG_DISK = size(CommonSettings.LOG_DISK);

  /** Whether links between ranks are encrypted. */
  public static final ConfigOption<Boolean> ENCRYPT = flag(CommonSettings.ENCRYPT);

  /** Folder at the JobManager for event logs; empty for none. */
  public static final ConfigOption<String> EVENTS = text(CommonSettings.EVENTS);

  /** Level of the native log. */
  public static final ConfigOption<String> LOG_LEVEL = text(CommonSettings.LOG_LEVEL);

  private RejoinOptions() {}

  private static ConfigOption<Integer> whole(Setting setting) {
    return option(setting).intType().defaultValue(Integer.valueOf(setting.defaultText()));
  }

  private static ConfigOption<Duration> time(Setting setting) {
    Duration otherwise = Duration.ofMillis(FlinkSettings.defaultNumber(setting));
    return option(setting).durationType().defaultValue(otherwise);
  }

  private static ConfigOption<MemorySize> size(Setting setting) {
    MemorySize otherwise = new MemorySize(FlinkSettings.defaultNumber(setting));
    return option(setting).memoryType().defaultValue(otherwise);
  }

  private static ConfigOption<Boolean> flag(Setting setting) {
    return option(setting).booleanType().defaultValue(Boolean.valueOf(setting.defaultText()));
  }

  private static ConfigOption<String> text(Setting setting) {
    return option(setting).stringType().defaultValue(setting.defaultText());
  }

  private static ConfigOptions.OptionBuilder option(Setting setting) {
    return ConfigOptions.key(FlinkSettings.TABLE.name(setting));
  }
}
