package io.rejoin.it;

import java.time.Duration;
import org.apache.spark.sql.SparkSession;

/** Waits for a session's executors. */
public final class Executors {
  /** An executor is a JVM that is started: on a busy machine several of them take minutes. */
  private static final Duration LIMIT = Duration.ofSeconds(300);

  private Executors() {}

  /** How many executors a session has now. */
  public static int present(SparkSession spark) {
    // The driver is in this list, too.
    return spark.sparkContext().statusTracker().getExecutorInfos().length - 1;
  }

  /**
   * Waits until a session has at least so many executors; an error that says how many there were
   * after the limit.
   */
  public static void await(SparkSession spark, int wanted) {
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (present(spark) < wanted) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException(
            "expected "
                + wanted
                + " executors within "
                + LIMIT.toSeconds()
                + " s, there are "
                + present(spark));
      }
      try {
        Thread.sleep(50); // Between two looks; the deadline decides, not this.
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for executors", interrupted);
      }
    }
  }
}
