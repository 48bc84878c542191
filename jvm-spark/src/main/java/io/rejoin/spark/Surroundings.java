package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.net.InetAddress;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.Dataset;

/**
 * What the application around a fit allows: retries, addresses, and what must not be switched on.
 */
final class Surroundings {
  private static final Pattern LOCAL =
      Pattern.compile("local\\[\\s*(?:\\d+|\\*)\\s*,\\s*(\\d+)\\s*]");

  private final SparkContext context;
  private final SparkConf conf;
  private final int workers;
  private final String trackerHost;
  private final String membersSetting;
  private final String portsSetting;

  Surroundings(SparkContext context, int workers) {
    this(context, workers, "", "spark.rejoin.members.timeout", "spark.rejoin.tracker.ports");
  }

  private Surroundings(
      SparkContext context,
      int workers,
      String trackerHost,
      String membersSetting,
      String portsSetting) {
    this.context = context;
    this.conf = context.getConf();
    this.workers = workers;
    this.trackerHost = trackerHost;
    this.membersSetting = membersSetting;
    this.portsSetting = portsSetting;
  }

  /** The same with another address of the driver, where the tracker listens and is reached. */
  Surroundings trackerHost(String host) {
    return new Surroundings(context, workers, host, membersSetting, portsSetting);
  }

  /** The same with another setting that says how long a rank may be missing. */
  Surroundings membersSetting(String name) {
    return new Surroundings(context, workers, trackerHost, name, portsSetting);
  }

  /** The same with another setting that says where the tracker listens. */
  Surroundings portsSetting(String name) {
    return new Surroundings(context, workers, trackerHost, membersSetting, name);
  }

  SparkContext context() {
    return context;
  }

  /** A client of Spark Connect has no SparkContext, on which everything here rests. */
  static void refuseConnect(Dataset<?> dataset) {
    if (dataset.getClass().getName().contains(".connect.")) {
      throw bad(
          "Spark Connect is not supported: run the fit where the SparkContext is, with a classic"
              + " session");
    }
  }

  /**
   * Refuses what can't work.
   *
   * @param workersName what the number of workers is called where the user sets it
   * @throws RejoinException BAD_ARGUMENT with what to change
   */
  void check(String workersName) {
    if (workers < 1) {
      throw bad(workersName + " is " + workers + "; expected at least 1");
    }
    if (conf.getBoolean("spark.speculation", false)) {
      throw bad(
          "spark.speculation is on: a copy of a running rank would take a slot, and be turned away"
              + " again and again; switch it off for applications that train");
    }
    if (conf.getInt("spark.task.maxFailures", 4) < 1) {
      throw bad("spark.task.maxFailures is below 1");
    }
  }

  int workers() {
    return workers;
  }

  String master() {
    return context.master();
  }

  /**
   * How many deaths of one rank Spark retries. In local mode only the second number in the brackets
   * counts.
   */
  int deathsRetried() {
    if (!context.isLocal()) {
      return conf.getInt("spark.task.maxFailures", 4) - 1;
    }
    Matcher matcher = LOCAL.matcher(master());
    return matcher.matches() ? Math.max(0, Integer.parseInt(matcher.group(1)) - 1) : 0;
  }

  /**
   * How many of so many ranks may share an executor: as many as it has slots, where that is known.
   * A standalone one has all cores of its Worker by default.
   */
  int mostRanksOfAnExecutor(int ranks) {
    boolean isContainer = master().startsWith("yarn") || master().startsWith("k8s");
    int byDefault = isContainer ? 1 : 0;
    int cores = context.isLocal() ? 0 : conf.getInt("spark.executor.cores", byDefault);
    int slots = cores / Math.max(1, conf.getInt("spark.task.cpus", 1));
    return slots < 1 ? ranks : Math.min(ranks, slots);
  }

  /** Whether Spark tries a task no more where it has failed. */
  boolean excludes() {
    return Stream.of("", "application.", "taskAndStage.")
        .anyMatch(part -> conf.getBoolean("spark.excludeOnFailure." + part + "enabled", false));
  }

  /** Whether executors that are told of their end in time can be left before it. */
  boolean decommissions() {
    return !context.isLocal() && conf.getBoolean("spark.decommission.enabled", false);
  }

  /** The Spark setting that raises the number of deaths that a rank may have. */
  String deathsSetting() {
    return context.isLocal()
        ? "the second number in the master local[threads,failures]"
        : "spark.task.maxFailures";
  }

  String deathsAdvice() {
    return context.isLocal() ? "use local[" + workers + ",4]" : "raise spark.task.maxFailures";
  }

  /** The setting that says how long a rank may be missing. */
  String membersSetting() {
    return membersSetting;
  }

  /** The setting that says at which ports the tracker may listen. */
  String portsSetting() {
    return portsSetting;
  }

  /**
   * Where agents reach the tracker: where executors reach the driver, unless another address was
   * given. In local mode all is in one process, and nothing listens beyond this machine.
   */
  String trackerHost() {
    if (!trackerHost.isEmpty()) {
      return trackerHost;
    }
    if (context.isLocal()) {
      return InetAddress.getLoopbackAddress().getHostAddress();
    }
    String driver = conf.get("spark.driver.host", "");
    return driver.isEmpty() ? SparkEnv.get().blockManager().blockManagerId().host() : driver;
  }

  /** Where the tracker listens: behind NAT the driver isn't itself where executors reach it. */
  String trackerBinds() {
    boolean isOwn = trackerHost.isEmpty() && !context.isLocal();
    return isOwn ? conf.get("spark.driver.bindAddress", trackerHost()) : trackerHost();
  }

  private static RejoinException bad(String message) {
    return new RejoinException(RejoinException.Code.BAD_ARGUMENT, message);
  }
}
