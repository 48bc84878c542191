package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.connector.source.SourceSplit;

/**
 * Which reader a split belongs to, and which one a reader gets next; pure rules. A split that the
 * source itself gives to a reader is that reader's. Splits that readers ask for are dealt by their
 * ids instead of by who asks first, and handed out by their ids, so that every run is the same.
 */
final class Owners<S extends SourceSplit> {
  private final int readers;
  // All splits that the source has given, so that none is given twice.
  private final TreeSet<String> known;
  private final List<TreeMap<String, NumberedSplit<S>>> waiting = new ArrayList<>();
  private final TreeMap<String, NumberedSplit<S>> drawn = new TreeMap<>();
  // Of which readers the source has said that it has no others for them.
  private final TreeSet<Integer> last = new TreeSet<>();
  // Which of them have heard it before any reader asked, so that they may have ended.
  private final TreeSet<Integer> ended = new TreeSet<>();

  Owners(int readers) {
    this(readers, List.of(), List.of(), List.of(), false);
  }

  /**
   * Goes on from a snapshot of as many readers or of others.
   *
   * @param known ids of all splits that the source has given
   * @param drawn those of them that belong to no reader yet
   * @param waiting what each of the former readers had coming
   * @param complete whether the source has given all
   */
  Owners(
      int readers,
      Iterable<String> known,
      List<NumberedSplit<S>> drawn,
      List<List<NumberedSplit<S>>> waiting,
      boolean complete) {
    this.readers = readers;
    this.known = new TreeSet<>();
    known.forEach(this.known::add);
    drawn.forEach(split -> this.drawn.put(split.splitId(), split));
    for (int reader = 0; reader < readers; reader++) {
      this.waiting.add(new TreeMap<>());
      if (complete) {
        last(reader);
      }
    }
    TreeMap<String, NumberedSplit<S>> all = new TreeMap<>();
    for (int reader = 0; reader < waiting.size(); reader++) {
      for (NumberedSplit<S> split : waiting.get(reader)) {
        (waiting.size() == readers ? this.waiting.get(reader) : all).put(split.splitId(), split);
      }
    }
    dealInTurn(all);
  }

  /**
   * The source gives a split to a reader of its choice.
   *
   * @throws RejoinException MISMATCH when it has given it before
   */
  NumberedSplit<S> given(S split, int reader) {
    checkNew(split, "reader " + reader);
    return new NumberedSplit<>(split, 0, false);
  }

  /**
   * The source gives a split because some reader has asked; it belongs to none before {@link
   * #deal}.
   *
   * @throws RejoinException MISMATCH when it has given it before
   */
  void drawn(S split) {
    checkNew(split, "a reader that asked");
    drawn.put(split.splitId(), new NumberedSplit<>(split, 0, true));
  }

  /**
   * Those that were drawn get their owners: in turn if the source has given all, else, as others
   * may come at any time, by their ids alone.
   */
  void deal() {
    if (isComplete()) {
      dealInTurn(drawn);
    } else {
      List<Integer> all = notEnded();
      drawn.forEach(
          (id, split) ->
              waiting.get(all.get(Math.floorMod(id.hashCode(), all.size()))).put(id, split));
    }
    drawn.clear();
  }

  private List<Integer> notEnded() {
    List<Integer> all = new ArrayList<>();
    for (int reader = 0; reader < readers; reader++) {
      if (!ended.contains(reader)) {
        all.add(reader);
      }
    }
    return all;
  }

  /** A reader begins, maybe once more. */
  void begin(int reader) {
    ended.remove(reader);
  }

  /** The source has no other splits for this reader if it asks. */
  void last(int reader) {
    last.add(reader);
  }

  /** The same, and the reader hears it: it isn't dealt any. */
  void end(int reader) {
    last.add(reader);
    ended.add(reader);
  }

  /** Whether the source has no other splits for this reader. */
  boolean isLast(int reader) {
    return last.contains(reader);
  }

  /** Whether the source has no other splits for any reader. */
  boolean isComplete() {
    return last.size() == readers;
  }

  /** A reader is gone that had these, which were never in a snapshot with it. */
  void back(List<NumberedSplit<S>> splits, int reader) {
    splits.forEach(split -> waiting.get(reader).put(split.splitId(), split));
  }

  /** What a reader that asks gets. */
  Optional<NumberedSplit<S>> next(int reader) {
    Optional<NumberedSplit<S>> next = firstAskedFor(reader);
    next.ifPresent(split -> waiting.get(reader).remove(split.splitId()));
    return next;
  }

  /** Whether a reader that asks gets one. */
  boolean hasNext(int reader) {
    return firstAskedFor(reader).isPresent();
  }

  private Optional<NumberedSplit<S>> firstAskedFor(int reader) {
    return waiting.get(reader).values().stream().filter(split -> split.isAskedFor).findFirst();
  }

  /** What a reader gets without asking, when it comes back. */
  List<NumberedSplit<S>> unasked(int reader) {
    List<NumberedSplit<S>> unasked = new ArrayList<>();
    waiting.get(reader).values().stream().filter(split -> !split.isAskedFor).forEach(unasked::add);
    unasked.forEach(split -> waiting.get(reader).remove(split.splitId()));
    return unasked;
  }

  /** The ids of all splits that the source has given. */
  List<String> known() {
    return new ArrayList<>(known);
  }

  /** Those that were drawn and belong to no reader yet; they are in no state of the source. */
  List<NumberedSplit<S>> drawn() {
    return new ArrayList<>(drawn.values());
  }

  /** What each reader has coming. */
  List<List<NumberedSplit<S>>> waiting() {
    List<List<NumberedSplit<S>>> all = new ArrayList<>();
    waiting.forEach(one -> all.add(new ArrayList<>(one.values())));
    return all;
  }

  private void dealInTurn(TreeMap<String, NumberedSplit<S>> splits) {
    List<Integer> all = notEnded();
    int index = 0;
    for (NumberedSplit<S> split : splits.values()) {
      waiting.get(all.get(index++ % all.size())).put(split.splitId(), split);
    }
  }

  private void checkNew(S split, String whom) {
    if (!known.add(split.splitId())) {
      throw new RejoinException(
          RejoinException.Code.MISMATCH,
          "the source gives split "
              + split.splitId()
              + " to "
              + whom
              + ", and has given a split of this id before. The rows of a split are numbered, so"
              + " its id has to be its own, and it has one reader for the life of the job"
              + " (docs/flink.md, Sources)");
    }
  }
}
