package io.rejoin.spark;

import io.rejoin.RowFingerprint;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.IntStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * A data set whose partitions can be read again by a restarted rank: the same rows in the same
 * order.
 */
final class PreparedInput implements AutoCloseable {
  private final StoredRows stored;
  private final Dataset<Row> rows;
  private final boolean isSparse;
  private final int deathsSurvived;
  private final Runnable release;

  PreparedInput(
      StoredRows stored,
      Dataset<Row> rows,
      boolean isSparse,
      int deathsSurvived,
      Runnable release) {
    this.stored = stored;
    this.rows = rows;
    this.isSparse = isSparse;
    this.deathsSurvived = deathsSurvived;
    this.release = release;
  }

  /** The rows as they are stored. */
  StoredRows stored() {
    return stored;
  }

  /** The same rows as a data frame. */
  Dataset<Row> rows() {
    return rows;
  }

  /** What each partition's rows have to be when they are read again; by partition. */
  List<RowFingerprint> fingerprints() {
    return stored.fingerprints();
  }

  /** The first partition without rows, if there is one. */
  OptionalInt emptyPartition() {
    List<RowFingerprint> all = fingerprints();
    return IntStream.range(0, all.size()).filter(each -> all.get(each).rows() == 0).findFirst();
  }

  /** Whether the column of vectors that was asked about has a sparse one in any row. */
  boolean isSparse() {
    return isSparse;
  }

  /**
   * How many executors may die at the same moment without any partition being lost; the largest
   * number if any.
   */
  int deathsSurvived() {
    return deathsSurvived;
  }

  long largestPartitionBytes() {
    return fingerprints().stream().mapToLong(RowFingerprint::bytes).max().orElse(0);
  }

  long bytes() {
    return fingerprints().stream().mapToLong(RowFingerprint::bytes).sum();
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
