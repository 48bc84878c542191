package io.rejoin.settings;

import java.util.List;
import java.util.Map;

/** The settings that every framework's way in has; each adds its own ({@link SettingTable}). */
public final class CommonSettings {
  private CommonSettings() {}

  /** Between two signs of life. */
  public static final Setting HEARTBEAT =
      time("heartbeat", "200ms", "between two signs of life of a process")
          .toTracker("heartbeat.millis");

  /** The silence of the dead. */
  public static final Setting LOST_AFTER =
      time(
              "lost.after",
              "1500ms",
              "silence after which a process is declared lost; at least twice the heartbeat")
          .toTracker("lost.millis");

  /** How long a rank may be missing. */
  public static final Setting MEMBERS_TIMEOUT =
      time(
              "members.timeout",
              "10min",
              "how long a rank may be missing before the job ends with an error")
          .toTracker("members.millis");

  /** How long an agent looks for its tracker. */
  public static final Setting TRACKER_TIMEOUT =
      time("tracker.timeout", "30s", "how long a process tries to reach the tracker at the start")
          .toAgent("tracker.millis");

  /** How long an agent without a tracker keeps what it holds. */
  public static final Setting LEASE =
      time(
              "lease",
              "60s",
              "how long a process that has lost its tracker trains on and keeps what it holds,"
                  + " before its tasks end with `TRACKER_UNREACHABLE`")
          .toTracker("lease.millis");

  /** Where the tracker listens. */
  public static final Setting TRACKER_PORTS =
      Setting.of(
              "tracker.ports",
              SettingType.PORTS,
              "0",
              "port of the tracker: 0 for any, or `first-last`")
          .toTracker("ports");

  /** Where agents listen. */
  public static final Setting AGENT_PORTS =
      Setting.of(
              "agent.ports",
              SettingType.PORTS,
              "0",
              "ports of the agents, one per job and process: 0 for any, or `first-last`")
          .toAgent("ports");

  /** Memory for logs. */
  public static final Setting LOG_MEMORY =
      Setting.of(
              "log.memory",
              SettingType.SIZE,
              "256m",
              "memory for logs per process and job; more goes to disk")
          .toAgent("log.memory.bytes");

  /** Disk for logs. */
  public static final Setting LOG_DISK =
      Setting.of(
              "log.disk",
              SettingType.SIZE,
              "16g",
              "disk for logs per process and job; more ends the job with `OUT_OF_SPACE`")
          .toAgent("log.disk.bytes");

  /** Encryption of all links. */
  public static final Setting ENCRYPT =
      Setting.of(
              "encrypt",
              SettingType.FLAG,
              "false",
              "encrypts all links between processes; those to the tracker always are")
          .toTracker("encrypt")
          .toAgent("encrypt");

  /** The native log. */
  public static final Setting LOG_LEVEL =
      Setting.of(
          "log.level",
          SettingType.choice("off", "error", "warn", "info", "debug", "trace"),
          "warn",
          "of the native log on stderr: off, error, warn, info, debug, trace");

  /** All of them. */
  public static final List<Setting> ALL =
      List.of(
          HEARTBEAT,
          LOST_AFTER,
          MEMBERS_TIMEOUT,
          TRACKER_TIMEOUT,
          LEASE,
          TRACKER_PORTS,
          AGENT_PORTS,
          LOG_MEMORY,
          LOG_DISK,
          ENCRYPT,
          LOG_LEVEL);

  /**
   * These settings alone, by their names without prefix, for a program that has no table of its
   * own.
   *
   * @throws io.rejoin.RejoinException BAD_ARGUMENT with the name, what was seen and what was
   *     expected
   */
  public static SettingValues of(Map<String, String> configuration) {
    SettingTable table = new SettingTable("", "io.rejoin.settings.CommonSettings", ALL);
    return table.read(configuration, Map.of());
  }

  private static Setting time(String name, String defaultText, String meaning) {
    return Setting.of(name, SettingType.TIME, defaultText, meaning);
  }

  /** What must hold among several. */
  static void check(SettingValues values) {
    long lost = values.number(LOST_AFTER);
    long heartbeat = values.number(HEARTBEAT);
    if (lost < 2 * heartbeat) {
      throw SettingType.refused(
          values.name(LOST_AFTER),
          lost + " ms",
          "at least twice " + values.name(HEARTBEAT) + " (" + heartbeat + " ms)");
    }
  }
}
