package io.rejoin.it.flink.bench;

import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.it.flink.FixedSplit;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;

/** Reads its split of a {@link PoolSource}. */
final class PoolReader implements SourceReader<LabeledRow, FixedSplit> {
  private static final int POOL = 4096;

  private final LabeledRow[] pool = new LabeledRow[POOL];
  private final CompletableFuture<Void> assigned = new CompletableFuture<>();
  private FixedSplit split;
  private long next;

  PoolReader(int features) {
    SplittableRandom random = new SplittableRandom(features);
    for (int i = 0; i < POOL; i++) {
      double[] row = new double[features];
      double score = 0;
      for (int j = 0; j < features; j++) {
        row[j] = random.nextDouble(-1, 1);
        score += j % 2 == 0 ? row[j] : -0.5 * row[j];
      }
      pool[i] = new LabeledRow(row, score + random.nextDouble(-0.3, 0.3) > 0 ? 1 : 0);
    }
  }

  @Override
  public void start() {}

  @Override
  public InputStatus pollNext(ReaderOutput<LabeledRow> output) {
    if (split == null) {
      return InputStatus.NOTHING_AVAILABLE;
    }
    if (next == split.end()) {
      return InputStatus.END_OF_INPUT;
    }
    output.collect(pool[(int) (next++ % POOL)]);
    return InputStatus.MORE_AVAILABLE;
  }

  @Override
  public CompletableFuture<Void> isAvailable() {
    return assigned;
  }

  @Override
  public void addSplits(List<FixedSplit> one) {
    split = one.get(0);
    next = split.next();
    assigned.complete(null);
  }

  @Override
  public void notifyNoMoreSplits() {}

  @Override
  public List<FixedSplit> snapshotState(long checkpoint) {
    return split == null ? List.of() : List.of(new FixedSplit(split.index(), next, split.end()));
  }

  @Override
  public void close() {}
}
