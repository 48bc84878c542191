package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/**
 * Gives a source's splits to their owners. When a reader asks, it draws all splits that the source
 * has, by asking on, and gives the reader the next one of its own. What the source gives without
 * being asked goes where it says. What comes back from a reader that is gone waits for that reader,
 * and the source never hears of it.
 */
final class OwnerEnumerator<S extends SourceSplit, E>
    implements SplitEnumerator<NumberedSplit<S>, OwnersState<S, E>> {
  private static final int MOST_SPLITS = 1_000_000;

  private final String name;
  private final SplitEnumeratorContext<NumberedSplit<S>> context;
  private final Owners<S> owners;
  // How often each reader has asked and got no answer yet, with its host.
  private final TreeMap<Integer, Asking> asking = new TreeMap<>();
  // In whose names the source was asked and has given no answer yet, also if they are gone since.
  private final TreeSet<Integer> open = new TreeSet<>();
  private SplitEnumerator<S, E> source;
  private boolean isDrawing;
  private boolean hasGiven;

  OwnerEnumerator(String name, SplitEnumeratorContext<NumberedSplit<S>> context, Owners<S> owners) {
    this.name = name;
    this.context = context;
    this.owners = owners;
  }

  /** What the source's own enumerator is made with. */
  OwnerContext<S> sourceContext() {
    return new OwnerContext<>(context, this::given, this::noMore);
  }

  /** The source's own enumerator. */
  OwnerEnumerator<S, E> of(SplitEnumerator<S, E> enumerator) {
    source = enumerator;
    return this;
  }

  @Override
  public void start() {
    source.start();
  }

  @Override
  public void addReader(int reader) {
    asking.remove(reader);
    for (NumberedSplit<S> split : owners.unasked(reader)) {
      context.assignSplit(split, reader);
    }
    source.addReader(reader);
  }

  @Override
  public void handleSplitRequest(int reader, String host) {
    asking.computeIfAbsent(reader, r -> new Asking(host)).times++;
    if (!owners.isComplete()) {
      draw(reader, host);
    }
    answer();
  }

  /** Asks until the source has no more, or has none just now. */
  private void draw(int reader, String host) {
    isDrawing = true;
    try {
      do {
        hasGiven = false;
        open.add(reader);
        source.handleSplitRequest(reader, host);
      } while (hasGiven && !owners.isComplete());
    } finally {
      isDrawing = false;
    }
    owners.deal();
  }

  /** The source gives splits to a reader. */
  private void given(int reader, List<S> splits) {
    try {
      if (open.remove(reader)) {
        hasGiven = true;
        splits.forEach(owners::drawn);
        checkSize();
        if (!isDrawing) {
          // The source is at work; there may be more when it has done.
          context.runInCoordinatorThread(this::drawAgain);
        }
        return;
      }
      for (S split : splits) {
        context.assignSplit(owners.given(split, reader), reader);
      }
    } catch (RejoinException e) {
      throw Repeating.refused(
          new RejoinException(e.code(), "source \"" + name + "\": " + e.text(), e));
    }
  }

  private void checkSize() {
    if (owners.known().size() > MOST_SPLITS) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "it has given more than "
              + MOST_SPLITS
              + " splits to readers that ask, and its splits have to be known before the first is"
              + " read. Make them larger");
    }
  }

  private void drawAgain() {
    owners.deal();
    for (Map.Entry<Integer, Asking> one : new TreeMap<>(asking).entrySet()) {
      if (!owners.isComplete() && !open.contains(one.getKey())) {
        draw(one.getKey(), one.getValue().host);
      }
    }
    answer();
  }

  /** The source says that a reader gets no more splits. */
  private void noMore(int reader) {
    if (!open.remove(reader)) {
      context.signalNoMoreSplits(reader);
      return;
    }
    owners.complete();
    if (!isDrawing) {
      context.runInCoordinatorThread(this::drawAgain);
    }
  }

  private void answer() {
    for (Map.Entry<Integer, Asking> one : asking.entrySet()) {
      int reader = one.getKey();
      while (one.getValue().times > 0 && context.registeredReaders().containsKey(reader)) {
        Optional<NumberedSplit<S>> next = owners.next(reader);
        if (next.isEmpty() && !owners.isComplete()) {
          break;
        }
        one.getValue().times--;
        if (next.isPresent()) {
          context.assignSplit(next.get(), reader);
        } else {
          context.signalNoMoreSplits(reader);
        }
      }
    }
  }

  @Override
  public void addSplitsBack(List<NumberedSplit<S>> splits, int reader) {
    asking.remove(reader);
    owners.back(splits, reader);
  }

  @Override
  public void handleSourceEvent(int reader, SourceEvent event) {
    source.handleSourceEvent(reader, event);
  }

  @Override
  public OwnersState<S, E> snapshotState(long checkpoint) throws Exception {
    // What the source has given is no longer in its own state.
    owners.deal();
    return OwnersState.of(source.snapshotState(checkpoint), owners);
  }

  @Override
  public void notifyCheckpointComplete(long checkpoint) throws Exception {
    source.notifyCheckpointComplete(checkpoint);
  }

  @Override
  public void notifyCheckpointAborted(long checkpoint) throws Exception {
    source.notifyCheckpointAborted(checkpoint);
  }

  @Override
  public void close() throws IOException {
    source.close();
  }

  private static final class Asking {
    private final String host;
    private int times;

    Asking(String host) {
      this.host = host;
    }
  }
}
