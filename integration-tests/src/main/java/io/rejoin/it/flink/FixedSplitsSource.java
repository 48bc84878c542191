package io.rejoin.it.flink;

import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Stands in for Kafka with static partitions: a fixed number of splits with stable ids, of which
 * number i belongs to reader i modulo the parallelism. A reader's rows come in an order that
 * follows from its splits' positions alone, so one that comes back gives the same rows in the same
 * order.
 */
public final class FixedSplitsSource implements Source<SplitRow, FixedSplit, List<FixedSplit>> {
  private static final long serialVersionUID = 1L;

  final int features;
  final List<Pause> pauses = new ArrayList<>();
  final List<JobFault> faults = new ArrayList<>();
  long nanosPerRow;
  boolean unbounded;
  private final long[] lengths;
  private String orderMarks;
  private boolean moves;
  private String givenAfter;

  /**
   * With a split for each length.
   *
   * @param lengths how many rows each split has
   * @param features how many features a row has
   */
  public FixedSplitsSource(long[] lengths, int features) {
    this.lengths = lengths.clone();
    this.features = features;
  }

  /**
   * A reader gives nothing for a while before a row.
   *
   * @param split of the row
   * @param number of the row
   * @param millis how long; 0 to wait for the gate alone
   * @param gate a file that has to be there before the row comes; null for none
   */
  record Pause(int split, long number, long millis, String gate) implements Serializable {}

  /** A reader takes at least so long for each row. */
  public FixedSplitsSource pace(long nanos) {
    nanosPerRow = nanos;
    return this;
  }

  /** The reader is idle for so long before this row, in each of its attempts that comes to it. */
  public FixedSplitsSource idle(int split, long number, long millis) {
    pauses.add(new Pause(split, number, millis, null));
    return this;
  }

  /** The reader is idle before this row until there is a file of this name. */
  public FixedSplitsSource gate(int split, long number, String file) {
    pauses.add(new Pause(split, number, 0, file));
    return this;
  }

  /** Readers meet those of these faults that come in a snapshot, or before a row. */
  FixedSplitsSource faults(List<JobFault> more) {
    faults.addAll(more);
    return this;
  }

  /** Readers wait for ever after their last rows. */
  public FixedSplitsSource unbounded() {
    unbounded = true;
    return this;
  }

  /**
   * Breaks the rule that a trainer needs: a reader that comes again gives the rows of its splits,
   * of which each has an even number, in another order. Who comes again is known by marks in a
   * folder.
   */
  FixedSplitsSource breaksItsRule(Path marks) {
    orderMarks = marks.toString();
    return this;
  }

  /**
   * Breaks the rule that a split has one owner: the splits of a reader that is gone go to the next
   * one, as if readers asked for work.
   */
  FixedSplitsSource movesSplits() {
    moves = true;
    return this;
  }

  /** No split is given to a reader before there is a file of this name. */
  FixedSplitsSource givesSplitsAfter(Path file) {
    givenAfter = file.toString();
    return this;
  }

  /** Whether rows come in another order, because this reader has been there before. */
  boolean isOutOfOrder(int reader) {
    return orderMarks != null && !Path.of(orderMarks, "reader-" + reader).toFile().mkdir();
  }

  @Override
  public Boundedness getBoundedness() {
    return unbounded ? Boundedness.CONTINUOUS_UNBOUNDED : Boundedness.BOUNDED;
  }

  @Override
  public SplitEnumerator<FixedSplit, List<FixedSplit>> createEnumerator(
      SplitEnumeratorContext<FixedSplit> context) {
    List<FixedSplit> all = new ArrayList<>();
    for (int i = 0; i < lengths.length; i++) {
      all.add(new FixedSplit(i, 0, lengths[i]));
    }
    return new FixedSplitsEnumerator(context, all, moves, givenAfter);
  }

  @Override
  public SplitEnumerator<FixedSplit, List<FixedSplit>> restoreEnumerator(
      SplitEnumeratorContext<FixedSplit> context, List<FixedSplit> unassigned) {
    return new FixedSplitsEnumerator(context, unassigned, moves, givenAfter);
  }

  @Override
  public SourceReader<SplitRow, FixedSplit> createReader(SourceReaderContext context) {
    return new FixedSplitsReader(this, context.getIndexOfSubtask());
  }

  @Override
  public SimpleVersionedSerializer<FixedSplit> getSplitSerializer() {
    return new FixedSplit.One();
  }

  @Override
  public SimpleVersionedSerializer<List<FixedSplit>> getEnumeratorCheckpointSerializer() {
    return new FixedSplit.Several();
  }
}
