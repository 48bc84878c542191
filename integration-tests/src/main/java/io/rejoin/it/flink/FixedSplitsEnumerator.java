package io.rejoin.it.flink;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/** Gives each split to its owner when that comes. */
public final class FixedSplitsEnumerator implements SplitEnumerator<FixedSplit, List<FixedSplit>> {
  private static final long BETWEEN_LOOKS_MILLIS = 10;

  private final SplitEnumeratorContext<FixedSplit> context;
  private final List<FixedSplit> unassigned;
  private final boolean moves;
  private final String gate;
  private boolean isOpen;

  /** With these, which nobody has yet. */
  public FixedSplitsEnumerator(
      SplitEnumeratorContext<FixedSplit> context, List<FixedSplit> unassigned) {
    this(context, unassigned, false, null);
  }

  /** {@code gate}: a file without which nobody is given any; null for none. */
  FixedSplitsEnumerator(
      SplitEnumeratorContext<FixedSplit> context,
      List<FixedSplit> unassigned,
      boolean moves,
      String gate) {
    this.context = context;
    this.moves = moves;
    this.gate = gate;
    this.isOpen = gate == null;
    this.unassigned = new ArrayList<>(unassigned);
  }

  @Override
  public void start() {
    if (gate != null) {
      context.callAsync(() -> Files.exists(Path.of(gate)), this::looked, 0, BETWEEN_LOOKS_MILLIS);
    }
  }

  private void looked(boolean isThere, Throwable failure) {
    if (!isOpen && isThere) {
      isOpen = true;
      List.copyOf(context.registeredReaders().keySet()).forEach(this::addReader);
    }
  }

  @Override
  public void addReader(int reader) {
    if (!isOpen) {
      return;
    }
    for (Iterator<FixedSplit> all = unassigned.iterator(); all.hasNext(); ) {
      FixedSplit split = all.next();
      if (split.index() % context.currentParallelism() == reader) {
        context.assignSplit(split, reader);
        all.remove();
      }
    }
    context.signalNoMoreSplits(reader);
  }

  @Override
  public void addSplitsBack(List<FixedSplit> splits, int reader) {
    if (moves) {
      int other = (reader + 1) % context.currentParallelism();
      splits.forEach(split -> context.assignSplit(split, other));
    } else {
      unassigned.addAll(splits);
    }
  }

  @Override
  public void handleSplitRequest(int reader, String host) {}

  @Override
  public List<FixedSplit> snapshotState(long checkpoint) {
    return new ArrayList<>(unassigned);
  }

  @Override
  public void close() {}
}
