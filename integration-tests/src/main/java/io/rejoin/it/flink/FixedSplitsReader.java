package io.rejoin.it.flink;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;

/**
 * Reads its splits by turns: the row of the smallest number comes next, of equal ones the first
 * split's.
 */
final class FixedSplitsReader implements SourceReader<SplitRow, FixedSplit> {
  private static final long BETWEEN_LOOKS_MILLIS = 10;

  private final FixedSplitsSource source;
  private final int index;
  private final boolean isOutOfOrder;
  private final Map<Integer, FixedSplit> splits = new TreeMap<>();
  private final CompletableFuture<Void> allKnown = new CompletableFuture<>();
  private FixedSplitsSource.Pause pause;
  private long pauseBegan;
  private long due = System.nanoTime();

  FixedSplitsReader(FixedSplitsSource source, int index) {
    this.source = source;
    this.index = index;
    isOutOfOrder = source.isOutOfOrder(index);
  }

  @Override
  public void start() {}

  @Override
  public InputStatus pollNext(ReaderOutput<SplitRow> output) {
    if (!allKnown.isDone()) {
      // Whoever begins with the splits that it has would begin in another order the next time.
      return InputStatus.NOTHING_AVAILABLE;
    }
    Optional<FixedSplit> next =
        splits.values().stream()
            .filter(split -> split.next() < split.end())
            .min(Comparator.comparingLong(FixedSplit::next).thenComparingInt(FixedSplit::index));
    if (next.isEmpty()) {
      return source.unbounded ? InputStatus.NOTHING_AVAILABLE : InputStatus.END_OF_INPUT;
    }
    FixedSplit split = next.get();
    if (isPaused(split)) {
      return InputStatus.NOTHING_AVAILABLE;
    }
    keepPace();
    fire(split.next(), JobFault.Moment.ROW);
    long number = isOutOfOrder ? split.next() ^ 1 : split.next();
    // As readers do that are built on Flink's SourceReaderBase: it says which split a row is of.
    output
        .createOutputForSplit(split.splitId())
        .collect(SplitRow.of(split.index(), number, source.features));
    splits.put(split.index(), split.advanced());
    return InputStatus.MORE_AVAILABLE;
  }

  private void fire(long number, JobFault.Moment moment) {
    for (JobFault fault : source.faults) {
      fault.fire(index, number, moment);
    }
  }

  private boolean isPaused(FixedSplit split) {
    FixedSplitsSource.Pause before =
        source.pauses.stream()
            .filter(one -> one.split() == split.index() && one.number() == split.next())
            .findFirst()
            .orElse(null);
    if (before != null && before != pause) {
      pauseBegan = System.nanoTime();
    }
    pause = before;
    return pause != null && !isOver(pause);
  }

  private boolean isOver(FixedSplitsSource.Pause one) {
    boolean passed = System.nanoTime() - pauseBegan >= TimeUnit.MILLISECONDS.toNanos(one.millis());
    return passed && (one.gate() == null || Files.exists(Path.of(one.gate())));
  }

  private void keepPace() {
    // Who has been held up makes up for a hundred rows, not for all.
    due = Math.max(due + source.nanosPerRow, System.nanoTime() - 100 * source.nanosPerRow);
    LockSupport.parkNanos(due - System.nanoTime());
  }

  @Override
  public CompletableFuture<Void> isAvailable() {
    if (!allKnown.isDone()) {
      return allKnown;
    }
    if (splits.values().stream().allMatch(split -> split.next() >= split.end())) {
      return source.unbounded ? new CompletableFuture<>() : CompletableFuture.completedFuture(null);
    }
    if (pause == null || isOver(pause)) {
      return CompletableFuture.completedFuture(null);
    }
    return CompletableFuture.runAsync(
        () -> {}, CompletableFuture.delayedExecutor(BETWEEN_LOOKS_MILLIS, TimeUnit.MILLISECONDS));
  }

  @Override
  public void addSplits(List<FixedSplit> more) {
    more.forEach(split -> splits.put(split.index(), split));
  }

  @Override
  public void notifyNoMoreSplits() {
    allKnown.complete(null);
  }

  @Override
  public List<FixedSplit> snapshotState(long checkpoint) {
    fire(checkpoint, JobFault.Moment.SNAPSHOT);
    return List.copyOf(splits.values());
  }

  @Override
  public void close() {}
}
