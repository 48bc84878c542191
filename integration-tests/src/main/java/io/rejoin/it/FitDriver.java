package io.rejoin.it;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent;
import io.rejoin.spark.RejoinEstimator;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/**
 * A Spark application of its own that trains with {@link RejoinEstimator} and reports its rounds on
 * standard output, for tests that do something to a driver. Spark's settings come as system
 * properties.
 */
public final class FitDriver {
  /** How a line starts that is meant for the parent. */
  static final String PREFIX = "@@ ";

  /** Reported when all trainings are over. */
  static final String END = "end of trainings";

  /** The property for a driver that is started again with the same arguments. */
  static final String ONCE = "rejoin.it.once";

  /** The property that names a file which gets the job's secret when a fault has fired. */
  static final String SECRET = "rejoin.it.secret";

  /** The property for rows in an order of theirs ({@link #sorted}). */
  static final String SORTED = "rejoin.it.sorted";

  private FitDriver() {}

  /** A shuffle that is a part of the data set itself. */
  static Dataset<Row> sorted(Dataset<Row> rows) {
    Column[] order = {functions.col("label"), functions.col("features").cast("string")};
    return rows.orderBy(order);
  }

  /**
   * Arguments: recipe, workers, rounds, and fault rules as {@link Faults#parse} reads them; further
   * fault rules are those of further trainings. The property {@link #ONCE} names a file that is
   * made by the first driver: one that finds it is the first one's successor, and meets no faults.
   */
  public static void main(String[] arguments) throws IOException {
    Recipe recipe = Recipe.valueOf(arguments[0]);
    int workers = Integer.parseInt(arguments[1]);
    int rounds = Integer.parseInt(arguments[2]);
    String once = System.getProperty(ONCE);
    boolean isSuccessor = once != null && !new File(once).createNewFile();
    SparkSession spark = SparkSession.builder().appName("rejoin " + recipe).getOrCreate();
    report("application " + spark.sparkContext().applicationId());
    if (!spark.sparkContext().isLocal()) {
      Executors.await(spark, workers);
    }
    AtomicLong shuffled = new AtomicLong();
    spark
        .sparkContext()
        .addSparkListener(
            new SparkListener() {
              @Override
              public void onTaskEnd(SparkListenerTaskEnd end) {
                if (end.taskMetrics() != null) {
                  shuffled.addAndGet(end.taskMetrics().shuffleReadMetrics().totalBytesRead());
                  shuffled.addAndGet(end.taskMetrics().shuffleWriteMetrics().bytesWritten());
                }
              }

              @Override
              public void onStageCompleted(SparkListenerStageCompleted completed) {
                long read =
                    completed.stageInfo().taskMetrics().shuffleReadMetrics().totalBytesRead();
                if (read > 0) {
                  report("shuffle " + read);
                }
              }

              @Override
              public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
                report("removed " + event.executorId() + " " + event.reason().replace('\n', ' '));
              }
            });
    for (int each = 3; each < Math.max(4, arguments.length); each++) {
      String faults = arguments.length > 3 && !isSuccessor ? arguments[each] : "";
      RejoinEstimator<?> estimator =
          new RejoinEstimator<>(recipe.estimator(spark, workers, rounds))
              .setFaultsForTests(Faults.parse(faults))
              .setEventListener(FitDriver::report);
      Dataset<Row> rows = recipe.data(spark, workers);
      rows = Boolean.getBoolean(SORTED) ? sorted(rows) : rows;
      report("model " + Digest.of(estimator.fit(rows)));
    }
    // Ends the listeners, too: what they have counted is complete then.
    spark.stop();
    report("shuffled " + shuffled);
    report(END);
  }

  private static void report(TrainingEvent event) {
    switch (event.kind()) {
      case VERSION_ENTERED -> report("round " + event.number("round"));
      case CAUGHT_UP -> report("again " + event.number("rank"));
      case AGENT_JOINED -> {
        report("agent " + event.text("executor") + " " + event.text("pid"));
        report("host " + event.text("host"));
      }
      case RANK_JOINED -> report("joined " + event.number("rank") + " " + event.text("executor"));
      case FAULT_FIRED -> {
        tellSecret();
        report("fired " + event.number("id"));
      }
      case RANK_LOST -> report("lost " + event.number("rank"));
      case EXECUTOR_LEAVES -> report("leaves " + event.text("executor"));
      case RANK_MOVED -> report("moved " + event.number("rank"));
      case JOB_ENDED -> report("deaths " + event.number("deaths"));
      default -> {}
    }
  }

  private static void tellSecret() {
    String file = System.getProperty(SECRET);
    if (file != null) {
      try {
        SparkContext context = SparkSession.getDefaultSession().get().sparkContext();
        Files.write(Path.of(file), GangSecret.of(context));
      } catch (IOException | ReflectiveOperationException failed) {
        throw new IllegalStateException("cannot tell the secret", failed);
      }
    }
  }

  static synchronized void report(String fact) {
    System.out.println(PREFIX + fact);
    System.out.flush();
  }
}
