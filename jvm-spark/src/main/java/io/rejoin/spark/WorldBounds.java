package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.Tracker;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.Setting;
import io.rejoin.settings.SettingValues;
import java.util.Locale;
import org.apache.spark.SparkConf;

/** How many ranks a gang wants, and between which numbers they may change while it trains. */
final class WorldBounds {
  private final int workers;
  private final String workersName;
  private final int min;
  private final int max;
  private final boolean isElastic;
  private final long timeoutMillis;
  private final long intervalMillis;

  private WorldBounds(
      int workers,
      String workersName,
      int min,
      int max,
      boolean isElastic,
      long timeoutMillis,
      long intervalMillis) {
    this.workers = workers;
    this.workersName = workersName;
    this.min = min;
    this.max = max;
    this.isElastic = isElastic;
    this.timeoutMillis = timeoutMillis;
    this.intervalMillis = intervalMillis;
  }

  /**
   * Always so many.
   *
   * @param workersName what the number of workers is called where the user sets it
   */
  static WorldBounds fixed(int workers, String workersName) {
    return new WorldBounds(workers, workersName, workers, workers, false, 0, 0);
  }

  /**
   * What a user has set. Where one bound is set, the other one is dynamic allocation's, or else the
   * number of workers.
   *
   * @param workersName what the number of workers is called where the user sets it
   * @param membersName what the time is called for which a rank may be missing
   * @throws RejoinException BAD_ARGUMENT for bounds that can't be, and for settings that don't go
   *     together with any
   */
  static WorldBounds of(
      SettingValues settings, SparkConf conf, int workers, String workersName, String membersName) {
    if (!areSet(settings)) {
      return fixed(workers, workersName);
    }
    long min = settings.number(SparkSettings.WORKERS_MIN);
    long max = settings.number(SparkSettings.WORKERS_MAX);
    if (min > workers) {
      throw bad(
          "%s is %d, but %s is %d; expected at most that",
          settings.name(SparkSettings.WORKERS_MIN), min, workersName, workers);
    }
    if (max > 0 && max < workers) {
      throw bad(
          "%s is %d, but %s is %d; expected at least that",
          settings.name(SparkSettings.WORKERS_MAX), max, workersName, workers);
    }
    if (min == 0) {
      min = Math.min(workers, Math.max(1, allocated(conf, "minExecutors", workers)));
    }
    if (max == 0) {
      max = Math.max(workers, allocated(conf, "maxExecutors", workers));
    }
    refuse(settings, SparkSettings.SPARES, settings.number(SparkSettings.SPARES) > 0);
    refuse(settings, SparkSettings.DURABLE, !settings.text(SparkSettings.DURABLE).isEmpty());
    long timeout = settings.number(SparkSettings.ELASTIC_TIMEOUT);
    long members = settings.number(CommonSettings.MEMBERS_TIMEOUT);
    if (timeout < settings.number(CommonSettings.HEARTBEAT) || timeout >= members) {
      throw bad(
          "%s is %d ms; expected at least %s (%d ms) and less than %s (%d ms), after which the fit"
              + " ends",
          settings.name(SparkSettings.ELASTIC_TIMEOUT),
          timeout,
          settings.name(CommonSettings.HEARTBEAT),
          settings.number(CommonSettings.HEARTBEAT),
          membersName,
          members);
    }
    long interval = settings.number(SparkSettings.RESIZE_INTERVAL);
    return new WorldBounds(workers, workersName, (int) min, (int) max, true, timeout, interval);
  }

  /** Whether a user has set any bound. */
  static boolean areSet(SettingValues settings) {
    return settings.number(SparkSettings.WORKERS_MIN) > 0
        || settings.number(SparkSettings.WORKERS_MAX) > 0;
  }

  /**
   * Refuses bounds in a training that can have none.
   *
   * @param why what it has
   * @throws RejoinException BAD_ARGUMENT with the settings
   */
  static void refuse(SettingValues settings, String why) {
    if (areSet(settings)) {
      throw bad(
          "%s or %s is set, so that the number of workers may change, but %s",
          settings.name(SparkSettings.WORKERS_MIN), settings.name(SparkSettings.WORKERS_MAX), why);
    }
  }

  private static void refuse(SettingValues settings, Setting other, boolean isSet) {
    if (isSet) {
      refuse(
          settings,
          settings.name(other) + " needs a fixed number; unset either that or the first two");
    }
  }

  /** What so many executors of dynamic allocation can train; {@code otherwise} without it. */
  private static long allocated(SparkConf conf, String bound, int otherwise) {
    int executors = conf.getInt("spark.dynamicAllocation." + bound, -1);
    boolean isOn = conf.getBoolean("spark.dynamicAllocation.enabled", false);
    boolean hasBound = executors >= 0 && executors < Integer.MAX_VALUE;
    if (!isOn || !hasBound) {
      return otherwise;
    }
    int cores = conf.getInt("spark.executor.cores", 1);
    long slots = Math.max(1, cores / Math.max(1, conf.getInt("spark.task.cpus", 1)));
    return Math.min(executors * slots, SparkSettings.MOST_WORKERS);
  }

  /** How many ranks it begins with if it can. */
  int workers() {
    return workers;
  }

  /** What the user calls the number of workers. */
  String workersName() {
    return workersName;
  }

  int min() {
    return min;
  }

  int max() {
    return max;
  }

  boolean isElastic() {
    return isElastic;
  }

  /** How long slots for all workers, or for one that is lost, are waited for. */
  long timeoutMillis() {
    return timeoutMillis;
  }

  /** The tracker's settings for a job that begins with so many ranks. */
  Tracker.Settings over(Tracker.Settings settings) {
    return isElastic ? settings.elastic(min, max, timeoutMillis, intervalMillis) : settings;
  }

  private static RejoinException bad(String format, Object... facts) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT, String.format(Locale.ROOT, format, facts));
  }
}
