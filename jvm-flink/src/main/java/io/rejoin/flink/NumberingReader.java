package io.rejoin.flink;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.types.Row;

/**
 * Reads with a source's own reader and gives its rows numbers. A reader that asks for splits gets
 * them one for each time that it asks, also where Flink gives several at once after a restore: so
 * they are read in the same order in every run, and the rows of a reader that doesn't say which
 * split a row is of are those of the split that it got last.
 */
@SuppressWarnings("try") // what closing throws is the source's reader's to say
final class NumberingReader<T, S extends SourceSplit>
    implements SourceReader<Row, NumberedSplit<S>> {
  private final String name;
  private final SourceReaderContext context;
  private final SplitCounts<S> counts;
  // Asked for and not yet given to the source's reader.
  private final ArrayDeque<NumberedSplit<S>> waiting = new ArrayDeque<>();
  private SourceReader<T, S> reader;
  private NumberingOutput<T> output;
  private boolean hasStarted;
  private int asked;
  private boolean isLast;

  NumberingReader(String name, SourceReaderContext context) {
    this.name = name;
    this.context = context;
    this.counts = new SplitCounts<>(name);
  }

  /** What the source's own reader is made with. */
  SourceReaderContext sourceContext() {
    return new AskingContext(context, this::ask);
  }

  /** The source's own reader. */
  NumberingReader<T, S> of(SourceReader<T, S> inner) {
    reader = inner;
    return this;
  }

  @Override
  public void start() {
    hasStarted = true;
    reader.start();
  }

  /** The source's reader is at work and asks for a split; it gets it when it has done. */
  private void ask() {
    asked++;
    counts.askedForNext();
    if (waiting.isEmpty()) {
      context.sendSplitRequest();
    }
  }

  @Override
  public void addSplits(List<NumberedSplit<S>> splits) {
    List<S> unasked = new ArrayList<>();
    for (NumberedSplit<S> split : splits) {
      if (split.isAskedFor) {
        waiting.add(split);
      } else {
        counts.begin(split);
        unasked.add(split.split);
      }
    }
    if (!unasked.isEmpty()) {
      reader.addSplits(unasked);
    }
    if (!hasStarted && !waiting.isEmpty()) {
      // A reader that has a split at its start doesn't ask.
      feed();
    }
    feedAsked();
  }

  private void feedAsked() {
    while (asked > 0 && !waiting.isEmpty()) {
      asked--;
      feed();
    }
  }

  private void feed() {
    NumberedSplit<S> next = waiting.poll();
    counts.begin(next);
    reader.addSplits(List.of(next.split));
    if (isLast && waiting.isEmpty()) {
      reader.notifyNoMoreSplits();
    }
  }

  @Override
  public void notifyNoMoreSplits() {
    isLast = true;
    if (waiting.isEmpty()) {
      reader.notifyNoMoreSplits();
    }
  }

  @Override
  public InputStatus pollNext(ReaderOutput<Row> records) throws Exception {
    feedAsked();
    if (output == null || !output.isOf(records)) {
      output = new NumberingOutput<>(records, counts);
    }
    InputStatus status = reader.pollNext(output);
    return asked > 0 && !waiting.isEmpty() ? InputStatus.MORE_AVAILABLE : status;
  }

  @Override
  public CompletableFuture<Void> isAvailable() {
    return asked > 0 && !waiting.isEmpty()
        ? CompletableFuture.completedFuture(null)
        : reader.isAvailable();
  }

  @Override
  public List<NumberedSplit<S>> snapshotState(long checkpoint) {
    List<NumberedSplit<S>> splits = counts.of(reader.snapshotState(checkpoint));
    splits.addAll(waiting);
    return splits;
  }

  @Override
  public void pauseOrResumeSplits(Collection<String> pause, Collection<String> resume) {
    reader.pauseOrResumeSplits(begun(pause), begun(resume));
  }

  private List<String> begun(Collection<String> ids) {
    return ids.stream().filter(counts::has).collect(Collectors.toList());
  }

  @Override
  public void handleSourceEvents(SourceEvent event) {
    reader.handleSourceEvents(event);
  }

  @Override
  public void notifyCheckpointComplete(long checkpoint) throws Exception {
    reader.notifyCheckpointComplete(checkpoint);
  }

  @Override
  public void notifyCheckpointAborted(long checkpoint) throws Exception {
    reader.notifyCheckpointAborted(checkpoint);
  }

  @Override
  public void close() throws Exception {
    reader.close();
  }

  @Override
  public String toString() {
    return "the reader of source \"" + name + "\"";
  }
}
