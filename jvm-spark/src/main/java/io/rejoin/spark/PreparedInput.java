package io.rejoin.spark;

import java.util.Optional;
import java.util.OptionalInt;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A data set whose partitions can be read again by a restarted rank: the same rows in the same
 * order.
 */
final class PreparedInput implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(PreparedInput.class);

  private final StoredPages stored;
  private final int deathsSurvived;
  private final Optional<CopiesWatch> copies;
  private final Runnable release;

  /** One of which no copies have to be made. */
  PreparedInput(StoredPages stored, int deathsSurvived, Runnable release) {
    this(stored, deathsSurvived, Optional.empty(), release);
  }

  /** One of whose pages further copies are being made. */
  PreparedInput(StoredPages stored, int deathsSurvived, CopiesWatch copies, Runnable release) {
    this(stored, deathsSurvived, Optional.of(copies), release);
  }

  private PreparedInput(
      StoredPages stored, int deathsSurvived, Optional<CopiesWatch> copies, Runnable release) {
    this.stored = stored;
    this.deathsSurvived = deathsSurvived;
    this.copies = copies;
    this.release = release;
  }

  /** The rows as they are stored. */
  StoredPages stored() {
    return stored;
  }

  /** The first partition without rows, if there is one. */
  OptionalInt emptyPartition() {
    return stored.partitions().stream()
        .filter(each -> each.rows() == 0)
        .mapToInt(PartitionPages::partition)
        .findFirst();
  }

  /** Whether any row came as a sparse vector. */
  boolean fromSparse() {
    return stored.partitions().stream().anyMatch(PartitionPages::fromSparse);
  }

  /**
   * How many executors may die at the same moment without any partition being lost, as soon as all
   * copies are there; the largest number if any.
   */
  int deathsSurvived() {
    return deathsSurvived;
  }

  /** Whether all copies are there: until then each death may take rows along. */
  boolean isCopied() {
    return copies.map(CopiesWatch::isComplete).orElse(true);
  }

  long largestPartitionBytes() {
    return stored.partitions().stream().mapToLong(PartitionPages::bytes).max().orElse(0);
  }

  long rows() {
    return stored.partitions().stream().mapToLong(PartitionPages::rows).sum();
  }

  long bytes() {
    return stored.partitions().stream().mapToLong(PartitionPages::bytes).sum();
  }

  /** Frees the stored rows; nothing can be read from them any more. */
  @Override
  public void close() {
    copies.ifPresent(CopiesWatch::close);
    free(release);
  }

  /** Has Spark free what is stored. If it can't, that is no reason for a fit to fail. */
  static void free(Runnable release) {
    try {
      uninterrupted(release);
    } catch (Exception e) {
      // Where the context was stopped there is nothing left to be freed, and no endpoint to ask.
      LOG.warn("stored input could not be freed: {}", e.toString());
    }
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
