package io.rejoin.flink;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceEnumerator;
import org.apache.flink.core.io.InputStatus;

/**
 * The numbers from 1 on in several splits, whatever the parallelism, which go to whoever asks first
 * as those of Flink's own source do; {@link Pushed} and {@link Found} have other ways.
 */
class Numbers extends NumberSequenceSource {
  private static final long serialVersionUID = 1L;

  final long last;
  final int splits;

  Numbers(long last, int splits) {
    super(1, last);
    this.last = last;
    this.splits = splits;
  }

  /** Whether two runs can differ in whose a split is. */
  boolean hasOwnersByTime() {
    return false;
  }

  List<NumberSequenceSplit> all() {
    return splitNumberRange(1, last, splits);
  }

  @Override
  public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
      SplitEnumeratorContext<NumberSequenceSplit> context) {
    return new IteratorSourceEnumerator<>(context, all());
  }

  /** One that gives splits to readers when they come, by an order of its own. */
  static class Pushed extends Numbers {
    private static final long serialVersionUID = 1L;

    private final boolean twice;

    /** With a rule that is broken, if it says so: a split is given again to whoever comes next. */
    Pushed(long last, int splits, boolean twice) {
      super(last, splits);
      this.twice = twice;
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context) {
      return new Pushing(context, all(), twice);
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      return new Pushing(context, left, twice);
    }

    @Override
    public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext context) {
      return new InTurn();
    }
  }

  private static final class Pushing extends Listed {
    private final boolean twice;

    Pushing(
        SplitEnumeratorContext<NumberSequenceSplit> context,
        Collection<NumberSequenceSplit> left,
        boolean twice) {
      super(context, left);
      this.twice = twice;
    }

    @Override
    public void addReader(int reader) {
      for (NumberSequenceSplit split : List.copyOf(left)) {
        if (split.splitId().hashCode() % context.currentParallelism() == reader) {
          left.remove(split);
          context.assignSplit(split, reader);
          if (twice) {
            context.assignSplit(split, reader);
          }
        }
      }
      context.signalNoMoreSplits(reader);
    }
  }

  /** One that says with its last split, to all readers, that no more follow. */
  static final class Foretold extends Numbers {
    private static final long serialVersionUID = 1L;

    Foretold(long last, int splits) {
      super(last, splits);
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context) {
      return new Foretelling(context, all());
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      return new Foretelling(context, left);
    }
  }

  private static final class Foretelling extends Listed {
    Foretelling(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      super(context, left);
    }

    @Override
    public void addReader(int reader) {
      // After a restore nobody has to ask to hear it.
      endFor(reader);
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
      if (!left.isEmpty()) {
        context.assignSplit(left.remove(0), reader);
      }
      // Also to those that haven't asked yet.
      List.copyOf(context.registeredReaders().keySet()).forEach(this::endFor);
    }

    private void endFor(int reader) {
      if (left.isEmpty()) {
        context.signalNoMoreSplits(reader);
      }
    }
  }

  /** One that has splits of its own for each reader, and gives them two at a time. */
  static final class Allotted extends Numbers {
    private static final long serialVersionUID = 1L;

    Allotted(long last, int splits) {
      super(last, splits);
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context) {
      return new Allotting(context, all());
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      return new Allotting(context, left);
    }
  }

  private static final class Allotting extends Listed {
    Allotting(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      super(context, left);
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
      int given = 0;
      for (NumberSequenceSplit split : List.copyOf(left)) {
        if (given < 2 && split.splitId().hashCode() % context.currentParallelism() == reader) {
          left.remove(split);
          context.assignSplit(split, reader);
          given++;
        }
      }
      if (given == 0) {
        context.signalNoMoreSplits(reader);
      }
    }
  }

  /** One that has splits for its first reader alone, and tells the others so when they come. */
  static final class Lone extends Numbers {
    private static final long serialVersionUID = 1L;

    Lone(long last, int splits) {
      super(last, splits);
    }

    @Override
    boolean hasOwnersByTime() {
      return true;
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context) {
      return new Favouring(context, all());
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      return new Favouring(context, left);
    }
  }

  private static final class Favouring extends Listed {
    Favouring(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      super(context, left);
    }

    @Override
    public void addReader(int reader) {
      if (reader > 0) {
        context.signalNoMoreSplits(reader);
      }
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
      if (reader == 0 && !left.isEmpty()) {
        context.assignSplit(left.remove(0), reader);
      } else {
        context.signalNoMoreSplits(reader);
      }
    }
  }

  /** One that finds its splits one by one while readers ask already. */
  static final class Found extends Numbers {
    private static final long serialVersionUID = 1L;

    Found(long last, int splits) {
      super(last, splits);
    }

    @Override
    boolean hasOwnersByTime() {
      return true;
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context) {
      return new Finding(context, all());
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      return new Finding(context, left);
    }
  }

  private static final class Finding extends Listed {
    private final ArrayDeque<NumberSequenceSplit> found = new ArrayDeque<>();
    private final TreeSet<Integer> waiting = new TreeSet<>();

    Finding(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      super(context, left);
    }

    @Override
    public void start() {
      context.callAsync(() -> 2, (some, failure) -> find(some));
    }

    private void find(int some) {
      for (int i = 0; i < some && !left.isEmpty(); i++) {
        found.add(left.remove(0));
      }
      give();
      if (!left.isEmpty()) {
        start();
      }
    }

    private void give() {
      waiting.retainAll(context.registeredReaders().keySet());
      for (int reader : List.copyOf(waiting)) {
        if (!found.isEmpty()) {
          waiting.remove(reader);
          context.assignSplit(found.poll(), reader);
        } else if (left.isEmpty()) {
          waiting.remove(reader);
          context.signalNoMoreSplits(reader);
        }
      }
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
      waiting.add(reader);
      give();
    }

    @Override
    public Collection<NumberSequenceSplit> snapshotState(long checkpoint) {
      List<NumberSequenceSplit> all = new ArrayList<>(found);
      all.addAll(left);
      return all;
    }
  }

  /** One that says first that it has no splits just now, and finds one then. */
  static final class Hesitant extends Numbers {
    private static final long serialVersionUID = 1L;

    Hesitant(long last, int splits) {
      super(last, splits);
    }

    @Override
    boolean hasOwnersByTime() {
      return true;
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context) {
      return new Hesitating(context, all());
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      return new Hesitating(context, left);
    }
  }

  private static final class Hesitating extends Listed {
    Hesitating(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      super(context, left);
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
      context.assignSplits(new SplitsAssignment<>(Map.of(reader, List.of())));
      context.callAsync(() -> reader, (asking, failure) -> give(asking));
    }

    private void give(int reader) {
      if (!context.registeredReaders().containsKey(reader)) {
        return;
      }
      if (left.isEmpty()) {
        context.signalNoMoreSplits(reader);
      } else {
        context.assignSplit(left.remove(0), reader);
      }
    }
  }

  private abstract static class Listed
      implements SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> {
    final SplitEnumeratorContext<NumberSequenceSplit> context;
    final List<NumberSequenceSplit> left;

    Listed(
        SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> left) {
      this.context = context;
      this.left = new ArrayList<>(left);
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int reader) {}

    @Override
    public void handleSplitRequest(int reader, String host) {}

    @Override
    public void addSplitsBack(List<NumberSequenceSplit> splits, int reader) {
      // To whoever comes next, as sources do that have no rule of owners.
      left.addAll(splits);
    }

    @Override
    public Collection<NumberSequenceSplit> snapshotState(long checkpoint) {
      return new ArrayList<>(left);
    }

    @Override
    public void close() {}
  }

  /** Reads a row of each of its splits in turn, and says which split it is of. */
  private static final class InTurn implements SourceReader<Long, NumberSequenceSplit> {
    private final Map<String, NumberSequenceSplit> splits = new LinkedHashMap<>();
    private CompletableFuture<Void> available = new CompletableFuture<>();
    private boolean isLast;

    @Override
    public void start() {}

    @Override
    public InputStatus pollNext(ReaderOutput<Long> output) {
      if (splits.isEmpty()) {
        if (isLast) {
          return InputStatus.END_OF_INPUT;
        }
        available = new CompletableFuture<>();
        return InputStatus.NOTHING_AVAILABLE;
      }
      NumberSequenceSplit split = splits.remove(splits.keySet().iterator().next());
      output.createOutputForSplit(split.splitId()).collect(split.from());
      if (split.from() < split.to()) {
        splits.put(
            split.splitId(),
            new NumberSequenceSplit(split.splitId(), split.from() + 1, split.to()));
      }
      return InputStatus.MORE_AVAILABLE;
    }

    @Override
    public List<NumberSequenceSplit> snapshotState(long checkpoint) {
      return new ArrayList<>(splits.values());
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
      return available;
    }

    @Override
    public void addSplits(List<NumberSequenceSplit> more) {
      more.forEach(split -> splits.put(split.splitId(), split));
      available.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {
      isLast = true;
      available.complete(null);
    }

    @Override
    public void close() {}
  }
}
