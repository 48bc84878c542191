package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.connector.source.ReaderInfo;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/**
 * Gives a source's splits to their owners. When a reader asks, it draws all splits that the source
 * has, by asking on in the names of all readers, as a source may have splits for one of them alone;
 * and it gives the reader the next one of its own. What the source gives without being asked goes
 * where it says. What comes back from a reader that is gone waits for that reader, and the source
 * never hears of it.
 */
final class OwnerEnumerator<S extends SourceSplit, E>
    implements SplitEnumerator<NumberedSplit<S>, OwnersState<S, E>> {
  private static final int MOST_SPLITS = 1_000_000;
  private static final int NOBODY = -1;

  private final String name;
  private final SplitEnumeratorContext<NumberedSplit<S>> context;
  private final Owners<S> owners;
  // How often each reader has asked and got no answer yet.
  private final TreeMap<Integer, Integer> asking = new TreeMap<>();
  // In whose names the source was asked and has given no answer since.
  private final TreeSet<Integer> open = new TreeSet<>();
  // How many answers it may still give in each reader's name: it was asked once more often.
  private final TreeMap<Integer, Integer> unanswered = new TreeMap<>();
  // To whom the source has said that none follow, and who haven't heard it.
  private final TreeSet<Integer> toNotify = new TreeSet<>();
  private SplitEnumerator<S, E> source;
  private boolean hasBeenAsked;
  private int drawing = NOBODY;

  OwnerEnumerator(String name, SplitEnumeratorContext<NumberedSplit<S>> context, Owners<S> owners) {
    this.name = name;
    this.context = context;
    this.owners = owners;
    // After a restore: those that were drawn are still to be dealt.
    hasBeenAsked = !owners.drawn().isEmpty();
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
    forget(reader);
    owners.begin(reader);
    for (NumberedSplit<S> split : owners.unasked(reader)) {
      context.assignSplit(split, reader);
    }
    source.addReader(reader);
    if (hasBeenAsked) {
      draw();
    }
  }

  private void forget(int reader) {
    asking.remove(reader);
    open.remove(reader);
    toNotify.remove(reader);
  }

  @Override
  public void handleSplitRequest(int reader, String host) {
    hasBeenAsked = true;
    asking.merge(reader, 1, Integer::sum);
    // The source may not have listened to what was asked in the reader's name before.
    open.remove(reader);
    draw();
  }

  /** Asks in each reader's name until the source has no more for it, or has none just now. */
  private void draw() {
    Optional<ReaderInfo> next = nextToAskFor();
    while (next.isPresent()) {
      drawing = next.get().getSubtaskId();
      open.add(drawing);
      unanswered.merge(drawing, 1, Integer::sum);
      try {
        source.handleSplitRequest(drawing, next.get().getLocation());
      } finally {
        drawing = NOBODY;
      }
      next = nextToAskFor();
    }
    if (owners.isComplete() || !open.isEmpty()) {
      owners.deal();
    }
    answer();
  }

  private Optional<ReaderInfo> nextToAskFor() {
    return new TreeMap<>(context.registeredReaders())
        .values().stream()
            .filter(one -> !open.contains(one.getSubtaskId()))
            .filter(one -> !owners.isLast(one.getSubtaskId()))
            .findFirst();
  }

  /** The source gives splits to a reader. */
  private void given(int reader, List<S> splits) {
    if (splits.isEmpty()) {
      return;
    }
    try {
      open.remove(reader);
      if (answers(reader) || reader == drawing) {
        splits.forEach(owners::drawn);
        checkSize();
        drawLater();
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

  /** Whether a reader was asked for; so that is one question less. */
  private boolean answers(int reader) {
    int questions = unanswered.getOrDefault(reader, 0);
    unanswered.put(reader, Math.max(0, questions - 1));
    return questions > 0;
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

  /** The source is at work by itself; there may be more when it has done. */
  private void drawLater() {
    if (drawing == NOBODY) {
      context.runInCoordinatorThread(this::draw);
    }
  }

  /**
   * The source says that a reader gets no more splits: with its last one, as soon as the reader
   * comes, or to all at once. Where readers ask, those that are drawn can be any reader's, so it
   * hears this when all are dealt and it has got its own.
   */
  private void noMore(int reader) {
    open.remove(reader);
    unanswered.remove(reader);
    if (hasBeenAsked || owners.hasNext(reader)) {
      owners.last(reader);
      toNotify.add(reader);
      drawLater();
    } else {
      owners.end(reader);
      context.signalNoMoreSplits(reader);
    }
  }

  private void answer() {
    for (int reader : context.registeredReaders().keySet()) {
      int requests = asking.getOrDefault(reader, 0);
      for (; requests > 0 && owners.hasNext(reader); requests--) {
        context.assignSplit(owners.next(reader).orElseThrow(), reader);
      }
      boolean isWaiting = requests > 0 || toNotify.contains(reader);
      if (isWaiting && owners.isComplete() && !owners.hasNext(reader)) {
        context.signalNoMoreSplits(reader);
        requests = 0;
        toNotify.remove(reader);
      }
      asking.put(reader, requests);
    }
  }

  @Override
  public void addSplitsBack(List<NumberedSplit<S>> splits, int reader) {
    forget(reader);
    owners.back(splits, reader);
  }

  @Override
  public void handleSourceEvent(int reader, SourceEvent event) {
    source.handleSourceEvent(reader, event);
  }

  @Override
  public OwnersState<S, E> snapshotState(long checkpoint) throws Exception {
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
}
