package io.rejoin.it;

import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.SparkSession;

/**
 * The Spark session that test cases share: starting one takes seconds, and there is only one per
 * process. A class of tests asks for the shape that it needs; executors that died are replaced
 * before the next case begins.
 */
final class Sessions {
  /** How a session's slots are laid out. */
  enum Shape {
    /** Four executors of one slot each: three ranks and a spare slot, or four ranks. */
    SINGLE(4, 1),
    /** Two executors of two slots each. */
    PAIRS(4, 2),
    /** Threads of this process; a task has four attempts. */
    LOCAL(4, 0);

    private final int slots;
    private final int slotsPerExecutor;

    Shape(int slots, int slotsPerExecutor) {
      this.slots = slots;
      this.slotsPerExecutor = slotsPerExecutor;
    }

    int executors() {
      return slotsPerExecutor == 0 ? 0 : slots / slotsPerExecutor;
    }
  }

  static final String EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions";

  /**
   * Executors of tests live for seconds, and starting their replacements is most of what a run
   * costs: no optimising compiler, which would never pay.
   */
  private static final String SHORT_LIVED =
      System.getProperty("rejoin.it.executor", "-XX:TieredStopAtLevel=1");

  private static StandaloneCluster cluster;
  private static SparkSession session;
  private static Shape shape;
  private static Map<String, String> extra = Map.of();

  private Sessions() {}

  /** The cluster, started when it is first asked for; it is closed by its shutdown hook. */
  static synchronized StandaloneCluster cluster() {
    if (cluster == null) {
      cluster = StandaloneCluster.start(System.getProperty("rejoin.it.name", "tests"), 4);
    }
    return cluster;
  }

  /** The options of executors' JVMs, for who adds to them. */
  static String executorOptions() {
    return cluster().configuration().get(EXECUTOR_OPTIONS) + " " + SHORT_LIVED;
  }

  /** Ends the session, so that all slots are free for a driver in a process of its own. */
  static synchronized void free() {
    if (session != null) {
      session.stop();
    }
  }

  /** A session of this shape, with all its executors there. */
  static SparkSession of(Shape wanted) {
    return of(wanted, Map.of());
  }

  /** The same with more of Spark's settings; the next who asks for others gets a new session. */
  static synchronized SparkSession of(Shape wanted, Map<String, String> more) {
    if (shape != wanted || !extra.equals(more) || session.sparkContext().isStopped()) {
      if (session != null) {
        session.stop();
      }
      SparkSession.Builder builder =
          SparkSession.builder().appName("rejoin tests, " + wanted.name().toLowerCase(Locale.ROOT));
      for (Map.Entry<String, String> entry : cluster().configuration().entrySet()) {
        builder.config(entry.getKey(), entry.getValue());
      }
      builder.config(EXECUTOR_OPTIONS, executorOptions());
      if (wanted == Shape.LOCAL) {
        builder.master("local[" + wanted.slots + ",4]");
      } else {
        builder
            .config("spark.cores.max", Integer.toString(wanted.slots))
            .config("spark.executor.cores", Integer.toString(wanted.slotsPerExecutor));
      }
      more.forEach(builder::config);
      session = builder.getOrCreate();
      shape = wanted;
      extra = Map.copyOf(more);
    }
    if (wanted != Shape.LOCAL && !more.containsKey("spark.dynamicAllocation.enabled")) {
      Executors.await(session, wanted.executors());
    }
    return session;
  }
}
