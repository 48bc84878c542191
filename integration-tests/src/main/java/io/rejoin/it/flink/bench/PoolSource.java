package io.rejoin.it.flink.bench;

import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.it.flink.FixedSplit;
import io.rejoin.it.flink.FixedSplitsEnumerator;
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
 * Rows from memory, the same ones over and over, so that reading costs next to nothing beside what
 * is measured. Reader i has split i, as many rows as all others.
 */
public final class PoolSource implements Source<LabeledRow, FixedSplit, List<FixedSplit>> {
  private static final long serialVersionUID = 1L;

  private final int readers;
  private final long rowsEach;
  private final int features;

  /** With so many rows for each of so many readers. */
  PoolSource(int readers, long rowsEach, int features) {
    this.readers = readers;
    this.rowsEach = rowsEach;
    this.features = features;
  }

  /** The same for one reader alone. */
  PoolSource forOne() {
    return new PoolSource(1, rowsEach, features);
  }

  @Override
  public Boundedness getBoundedness() {
    return Boundedness.BOUNDED;
  }

  @Override
  public SplitEnumerator<FixedSplit, List<FixedSplit>> createEnumerator(
      SplitEnumeratorContext<FixedSplit> context) {
    List<FixedSplit> all = new ArrayList<>();
    for (int i = 0; i < readers; i++) {
      all.add(new FixedSplit(i, 0, rowsEach));
    }
    return new FixedSplitsEnumerator(context, all);
  }

  @Override
  public SplitEnumerator<FixedSplit, List<FixedSplit>> restoreEnumerator(
      SplitEnumeratorContext<FixedSplit> context, List<FixedSplit> unassigned) {
    return new FixedSplitsEnumerator(context, unassigned);
  }

  @Override
  public SourceReader<LabeledRow, FixedSplit> createReader(SourceReaderContext context) {
    return new PoolReader(features);
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
