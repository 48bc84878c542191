package io.rejoin.spark;

import io.rejoin.RowFingerprint;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * A data set whose partitions can be read again by a restarted rank: the same rows in the same
 * order.
 */
final class PreparedInput implements AutoCloseable {
  private final JavaRDD<byte[]> blocks;
  private final Dataset<Row> rows;
  private final List<RowFingerprint> fingerprints;
  private final int deathsSurvived;
  private final Runnable release;

  PreparedInput(
      JavaRDD<byte[]> blocks,
      Dataset<Row> rows,
      List<RowFingerprint> fingerprints,
      int deathsSurvived,
      Runnable release) {
    this.blocks = blocks;
    this.rows = rows;
    this.fingerprints = fingerprints;
    this.deathsSurvived = deathsSurvived;
    this.release = release;
  }

  /** The blocks of rows, read from where they are stored. */
  JavaRDD<byte[]> blocks() {
    return blocks;
  }

  /** The same rows for the stock estimator. */
  Dataset<Row> rows() {
    return rows;
  }

  /** What each partition's rows have to be when they are read again; by partition. */
  List<RowFingerprint> fingerprints() {
    return fingerprints;
  }

  /**
   * How many executors may die at the same moment without any partition being lost; the largest
   * number if any.
   */
  int deathsSurvived() {
    return deathsSurvived;
  }

  long largestPartitionBytes() {
    return fingerprints.stream().mapToLong(RowFingerprint::bytes).max().orElse(0);
  }

  long bytes() {
    return fingerprints.stream().mapToLong(RowFingerprint::bytes).sum();
  }

  /** Frees the stored rows; nothing can be read from them any more. */
  @Override
  public void close() {
    uninterrupted(release);
  }

  /**
   * Does something that Spark would refuse to do on a thread that was interrupted: its calls to the
   * driver's endpoints wait, and copies would stay. The thread is interrupted afterwards as before.
   */
  static void uninterrupted(Runnable work) {
    boolean interrupted = Thread.interrupted();
    try {
      work.run();
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
