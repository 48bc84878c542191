package io.rejoin.settings;

import java.util.List;
import java.util.Map;

/** The settings that every framework's way in has; each adds its own ({@link SettingTable}). */
public final class CommonSettings {
  private CommonSettings() {}

  /** Time between two heartbeats of a process to the tracker. */
  public static final Setting HEARTBEAT =
      time("heartbeat", "200ms", "between two signs of life of a process")
          .toTracker("heartbeat.millis");

  /** Silence after which the tracker declares a process lost; at least twice {@link #HEARTBEAT}. */
  public static final Setting LOST_AFTER =
      time(
              "lost.after",
              "1500ms",
              "silence after which a process is declared lost; at least twice the heartbeat")
          .toTracker("lost.millis");

  /** How long a rank may be missing before the job ends with MEMBERS_MISSING. */
  public static final Setting MEMBERS_TIMEOUT =
      time(
              "members.timeout",
              "10min",
              "how long a rank may be missing before the job ends with an error")
          .toTracker("members.millis");

  /** How long a starting process tries to reach the tracker before TRACKER_UNREACHABLE. */
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

  /** The ports that the tracker may listen on, at the driver. */
  public static final Setting TRACKER_PORTS =
      ports("tracker.ports", "port of the tracker: 0 for any, or `first-last`").toTracker("ports");

  /** The ports that agents may listen on, at the executors. */
  public static final Setting AGENT_PORTS =
      ports(
              "agent.ports",
              "ports of the agents, one per job and process: 0 for any, or `first-last`")
          .toAgent("ports");

  /** Bytes of memory for logs per process and job; what is over goes to disk. */
  public static final Setting LOG_MEMORY =
      size("log.memory", "256m", "memory for logs per process and job; more goes to disk")
          .toAgent("log.memory.bytes");

  /** Bytes of disk for logs per process and job; more ends the job with OUT_OF_SPACE. */
  public static final Setting LOG_DISK =
      size(
              "log.disk",
              "16g",
              "disk for logs per process and job; more ends the job with `OUT_OF_SPACE`")
          .toAgent("log.disk.bytes");

  /** Whether links between processes are encrypted; those to the tracker always are. */
  public static final Setting ENCRYPT =
      Setting.of(
              "encrypt",
              SettingType.FLAG,
              "false",
              "encrypts all links between the ranks' processes; those to the tracker always"
                  + " are")
          .toTracker("encrypt")
          .toAgent("encrypt");

  /** The folder for event logs, one file per job; empty for none. */
  public static final Setting EVENTS =
      Setting.of(
              "events",
              SettingType.TEXT,
              "",
              "folder of the driver's machine for event logs, one file `JOB.jsonl` per job, from"
                  + " which `rejoin timeline` draws what each rank did when. Ranks then report how"
                  + " they spend their time")
          .withDefault("", "none")
          .toTracker("events")
          .toAgent("events");

  /** The level of the native library's log on standard error. */
  public static final Setting LOG_LEVEL =
      Setting.of(
          "log.level",
          SettingType.choice("off", "error", "warn", "info", "debug", "trace"),
          "warn",
          "of the native log on stderr: off, error, warn, info, debug, trace");

  /**
   * How long a collective waits for the other ranks. Of frameworks whose tasks make collectives by
   * a {@link io.rejoin.Communicator}; other programs give it to the join.
   */
  public static final Setting CALL_TIMEOUT =
      time(
          "call.timeout",
          "10min",
          "how long a collective waits for the other ranks, restarts of theirs included, before the"
              + " task fails with `TIMED_OUT`");

  /** All common settings but {@link #CALL_TIMEOUT}, in the order of the documents' table. */
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
          EVENTS,
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

  private static Setting size(String name, String defaultText, String meaning) {
    return Setting.of(name, SettingType.SIZE, defaultText, meaning);
  }

  private static Setting ports(String name, String meaning) {
    return Setting.of(name, SettingType.PORTS, "0", meaning);
  }

  /** Refuses values that contradict each other, with both names. */
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
