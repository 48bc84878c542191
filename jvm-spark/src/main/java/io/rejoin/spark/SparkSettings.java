package io.rejoin.spark;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.Setting;
import io.rejoin.settings.SettingTable;
import io.rejoin.settings.SettingType;
import io.rejoin.settings.SettingValues;
import io.rejoin.xgboost.XgboostSettings;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import scala.Tuple2;

/**
 * The settings {@code spark.rejoin.*}, from the session's configuration (which includes the
 * application's), read and checked once at the start of a fit.
 */
final class SparkSettings {
  static final Setting INPUT =
      Setting.of(
          "input",
          SettingType.choice("replicate", "reread", "checkpoint"),
          "replicate",
          "how a restarted rank gets its rows again: `replicate` (copies on executors),"
              + " `checkpoint` (the checkpoint directory, which must be set), `reread` (the source"
              + " is read again; refused if a shuffle lies behind it)");

  static final Setting REPLICAS =
      Setting.of(
          "input.replicas",
          SettingType.integer(1, 40),
          "2",
          "copies of each prepared partition, 1 to 40; at most one per executor");

  static final Setting INPUT_LOST =
      Setting.of(
          "input.lost",
          SettingType.choice("restart", "fail"),
          "restart",
          "what happens when all copies of a page are lost and computing it again gives other rows:"
              + " `restart` (the fit begins again at round 0 on new pages, with a warning, at most"
              + " as often as a rank may die), `fail` (it ends with `INPUT_LOST`)");

  static final Setting DURABLE =
      Setting.of(
              "durable",
              SettingType.TEXT,
              "",
              "folder on a file system that driver and executors reach (`hdfs:`, `s3a:`, a mounted"
                  + " disk), below which each training keeps its pages and checkpoints, so that the"
                  + " application goes on from them when it is submitted again"
                  + " ([below](#when-the-driver-dies))")
          .withDefault("", "none");

  static final Setting DURABLE_NAME =
      Setting.of(
              "durable.name",
              SettingType.TEXT,
              "",
              "a name that stands for the rows and the program, where they can't be known again"
                  + " by themselves")
          .withDefault("", "none");

  static final Setting DURABLE_EVERY =
      Setting.of(
          "durable.every",
          SettingType.integer(1, Integer.MAX_VALUE),
          "10",
          "every so many checkpoints one is written to the durable folder");

  static final Setting SPARES =
      Setting.of(
              "spares",
              SettingType.integer(0, 1000),
              "0",
              "so many tasks more than workers stand by, a slot each: one takes over the rank of a"
                  + " task or an executor that is lost, at once, and the task that Spark tries"
                  + " again is the next spare ([below](#warm-spares))")
          .toTracker("spares");

  /** More than anybody has slots for. */
  static final int MOST_WORKERS = 100_000;

  static final Setting WORKERS_MIN =
      Setting.of(
              "workers.min",
              SettingType.integer(0, MOST_WORKERS),
              "0",
              "the fewest workers that a training goes on with when others are lost and no slots"
                  + " are had for them ([below](#more-or-fewer-workers)); 0 is the same as not set")
          .withDefault(
              "0",
              "none; if `spark.rejoin.workers.max` is set, what"
                  + " `spark.dynamicAllocation.minExecutors` have slots for, or all workers");

  static final Setting WORKERS_MAX =
      Setting.of(
              "workers.max",
              SettingType.integer(0, MOST_WORKERS),
              "0",
              "the most workers that it grows to when slots come; so many tasks are started, and"
                  + " those without a slot wait for one; 0 is the same as not set")
          .withDefault(
              "0",
              "none; if `spark.rejoin.workers.min` is set, what"
                  + " `spark.dynamicAllocation.maxExecutors` have slots for, or all workers");

  static final Setting ELASTIC_TIMEOUT =
      Setting.of(
          "elastic.timeout",
          SettingType.TIME,
          "30s",
          "with one of these: how long slots for all workers, or for one that is lost, are waited"
              + " for before a training goes on with fewer");

  static final Setting RESIZE_INTERVAL =
      Setting.of(
          "resize.interval",
          SettingType.TIME_OR_NONE,
          "10s",
          "with one of these: how long the number of workers doesn't grow after it has changed");

  static final Setting SLOTS_TIMEOUT =
      Setting.of("slots.timeout", SettingType.TIME, "60s", "how long a fit waits for executors");

  static final Setting QUEUE_TIMEOUT =
      Setting.of(
          "queue.timeout",
          SettingType.TIME,
          "24h",
          "how long a fit waits for other fits of the application");

  static final Setting LISTENERS =
      Setting.of(
              "listeners",
              SettingType.TEXT,
              "",
              "classes of listeners that get the events of each fit on the driver, separated by"
                  + " commas ([below](#listeners))")
          .withDefault("", "none");

  /**
   * Of the estimator alone; the agents of other trainings refuse it, so it goes to no agent from
   * here.
   */
  static final Setting HOOK = XgboostSettings.HOOK.toAgent(null);

  private static final String NETWORK_CRYPTO = "spark.network.crypto.enabled";

  /** From Spark 4 on. */
  private static final String NETWORK_TLS = "spark.ssl.rpc.enabled";

  static final SettingTable TABLE =
      new SettingTable(
          "spark.rejoin.",
          "docs/spark.md",
          Arrays.asList(
              INPUT,
              REPLICAS,
              INPUT_LOST,
              DURABLE,
              DURABLE_NAME,
              DURABLE_EVERY,
              XgboostSettings.CHECKPOINT_ROUNDS,
              CommonSettings.HEARTBEAT,
              CommonSettings.LOST_AFTER,
              CommonSettings.MEMBERS_TIMEOUT.withMeaning(
                  "how long a rank may be missing before the fit ends with an error (the stock"
                      + " tracker's timeout, if set, wins)"),
              CommonSettings.TRACKER_TIMEOUT.withMeaning(
                  "how long an executor tries to reach the driver at the start"),
              CommonSettings.LEASE.withMeaning(
                  "how long an executor that has lost its driver trains on and keeps what it holds,"
                      + " before its tasks end with `TRACKER_UNREACHABLE`"),
              CommonSettings.CALL_TIMEOUT.withMeaning(
                  "of `RejoinSpark.train` and `rejoin.spark.run`: how long a collective waits for"
                      + " the other ranks, restarts of theirs included, before the task fails with"
                      + " `TIMED_OUT`"),
              SPARES,
              WORKERS_MIN,
              WORKERS_MAX,
              ELASTIC_TIMEOUT,
              RESIZE_INTERVAL,
              SLOTS_TIMEOUT,
              QUEUE_TIMEOUT,
              CommonSettings.TRACKER_PORTS.withMeaning(
                  "port of the tracker on the driver: 0 for any, or `first-last` (the stock"
                      + " tracker's port, if set, wins)"),
              CommonSettings.AGENT_PORTS.withMeaning(
                  "ports of the agents on the executors, one per fit and executor"),
              CommonSettings.LOG_MEMORY.withMeaning(
                  "memory for logs per executor and fit, of whose results its ranks keep one copy;"
                      + " more goes to disk. From XGBoost 3.3, and unless the rounds are set,"
                      + " checkpoints come so often that two intervals fit"),
              CommonSettings.LOG_DISK.withMeaning(
                  "disk for byte logs per executor and fit, in Spark's local directory; more ends"
                      + " the fit with `OUT_OF_SPACE`"),
              CommonSettings.ENCRYPT.withDefault(
                  "false", "Spark's `" + NETWORK_CRYPTO + "` or `" + NETWORK_TLS + "`"),
              HOOK,
              CommonSettings.EVENTS.withMeaning(
                  "folder of the driver's machine for event logs, one file `JOB.jsonl` per fit,"
                      + " from which `rejoin timeline` draws what each rank did when"),
              LISTENERS,
              CommonSettings.LOG_LEVEL));

  private SparkSettings() {}

  /** Whether the tracker says which rank a task is, because there may be more tasks than ranks. */
  static boolean givesRanks(SettingValues settings) {
    return settings.number(SPARES) > 0 || WorldBounds.areSet(settings);
  }

  /** What is set in a session, or was for its application. */
  static SettingValues of(SparkSession session) {
    return of(
        ScalaCollections.rest(session.conf().getAll().iterator()).stream()
            .collect(Collectors.toMap(Tuple2::_1, Tuple2::_2)));
  }

  /** The same for XGBoost's agents. */
  static SettingValues ofXgboost(SparkSession session) {
    SettingValues values = of(session);
    return values.with(XgboostSettings.HOOK, values.text(HOOK));
  }

  /** What is set in such a configuration. */
  static SettingValues of(Map<String, String> configuration) {
    boolean encrypt =
        Boolean.parseBoolean(configuration.get(NETWORK_CRYPTO))
            || Boolean.parseBoolean(configuration.get(NETWORK_TLS));
    return TABLE.read(configuration, Map.of(CommonSettings.ENCRYPT, Boolean.toString(encrypt)));
  }
}
