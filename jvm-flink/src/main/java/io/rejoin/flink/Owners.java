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
  private final TreeMap<String, NumberedSplit<S>> dealt = new TreeMap<>();
  private boolean complete;

  Owners(int readers) {
    this(readers, List.of(), List.of(), false);
  }

  /**
   * Goes on from a snapshot of as many readers or of others.
   *
   * @param known ids of all splits that the source has given
   * @param waiting what each of the former readers had coming
   * @param complete whether the source has given all
   */
  Owners(
      int readers, Iterable<String> known, List<List<NumberedSplit<S>>> waiting, boolean complete) {
    this.readers = readers;
    this.known = new TreeSet<>();
    known.forEach(this.known::add);
    this.complete = complete;
    for (int reader = 0; reader < readers; reader++) {
      this.waiting.add(new TreeMap<>());
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
    dealt.put(split.splitId(), new NumberedSplit<>(split, 0, true));
  }

  /**
   * Those that were drawn get their owners: in turn if the source has given all, else, as others
   * may come at any time, by their ids alone.
   */
  void deal() {
    if (complete) {
      dealInTurn(dealt);
    } else {
      dealt.forEach(
          (id, split) -> waiting.get(Math.floorMod(id.hashCode(), readers)).put(id, split));
    }
    dealt.clear();
  }

  /** The source has no other splits for readers that ask. */
  void complete() {
    complete = true;
  }

  boolean isComplete() {
    return complete;
  }

  /** A reader is gone that had these, which were never in a snapshot with it. */
  void back(List<NumberedSplit<S>> splits, int reader) {
    splits.forEach(split -> waiting.get(reader).put(split.splitId(), split));
  }

  /** What a reader that asks gets. */
  Optional<NumberedSplit<S>> next(int reader) {
    Optional<NumberedSplit<S>> next =
        waiting.get(reader).values().stream().filter(split -> split.isAskedFor).findFirst();
    next.ifPresent(split -> waiting.get(reader).remove(split.splitId()));
    return next;
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

  /** What each reader has coming. */
  List<List<NumberedSplit<S>>> waiting() {
    List<List<NumberedSplit<S>>> all = new ArrayList<>();
    waiting.forEach(one -> all.add(new ArrayList<>(one.values())));
    return all;
  }

  private void dealInTurn(TreeMap<String, NumberedSplit<S>> splits) {
    int index = 0;
    for (NumberedSplit<S> split : splits.values()) {
      waiting.get(index++ % readers).put(split.splitId(), split);
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
