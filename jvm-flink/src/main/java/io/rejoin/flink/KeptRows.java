package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.TreeMap;

/**
 * The rows that a rank keeps, by split. After a restore at another parallelism rows of one split
 * may be at several ranks, so that a rank has several parts of it with gaps between them; whatever
 * has no gap is one part.
 */
final class KeptRows<T> {
  private final TreeMap<String, List<SplitRows<T>>> splits = new TreeMap<>();
  // How far ranks had read that were restored with this one.
  private List<Positions> othersRead = List.of();
  // Rows mostly come from where the last one came from.
  private SplitRows<T> last;

  /**
   * Parts that a snapshot of Flink's had.
   *
   * @throws RejoinException MISMATCH when two of them have the same row
   */
  void restore(List<SplitRows<T>> parts) {
    for (SplitRows<T> part : parts) {
      List<SplitRows<T>> all = splits.computeIfAbsent(part.name(), name -> new ArrayList<>());
      all.add(part);
      join(all);
    }
  }

  /**
   * How far ranks had read when such a snapshot was taken, whichever ranks these were. A split may
   * go on here whose former rows another rank keeps: only that one knows their fingerprint.
   */
  void othersRead(List<Positions> read) {
    othersRead = read;
    for (SplitRows<T> part : parts()) {
      part.follows(fingerprint(part.name(), part.first()));
    }
  }

  /** What the next row of a split joins where rows come without numbers. */
  SplitRows<T> next(String name) {
    if (last == null || !last.name().equals(name)) {
      List<SplitRows<T>> parts = splits.get(name);
      last = parts == null ? begin(name, 0) : parts.get(parts.size() - 1);
    }
    return last;
  }

  /**
   * What the row of this number joins.
   *
   * @throws RejoinException MISMATCH when it isn't new
   */
  SplitRows<T> next(String name, long number) {
    if (last == null || last.next() != number || !last.name().equals(name)) {
      List<SplitRows<T>> parts = splits.get(name);
      SplitRows<T> newest = parts == null ? null : parts.get(parts.size() - 1);
      if (newest != null && newest.next() > number) {
        throw twice("row " + number + " of " + name, newest.toString());
      }
      last = newest != null && newest.next() == number ? newest : begin(name, number);
    }
    return last;
  }

  /** The part that has this number or comes to it; null where there is none. */
  SplitRows<T> with(String name, long number) {
    SplitRows<T> with = null;
    for (SplitRows<T> part : splits.getOrDefault(name, List.of())) {
      with = with == null || part.first() <= number ? part : with;
    }
    return with;
  }

  /** Whether no row can join a part any more. */
  boolean isClosed(SplitRows<T> part) {
    List<SplitRows<T>> parts = splits.get(part.name());
    return parts.get(parts.size() - 1) != part;
  }

  /**
   * Gives back the memory of a part without rows, to which the next one is hardly going to come.
   */
  void shrink(SplitRows<T> part) {
    if (part != last) {
      part.shrink();
    }
  }

  /** All parts, by split and number. */
  List<SplitRows<T>> parts() {
    List<SplitRows<T>> all = new ArrayList<>();
    splits.values().forEach(all::addAll);
    return all;
  }

  /** How far this rank has read each split, as far as the rows before are known. */
  Positions read() {
    List<SplitRows<T>> newest = new ArrayList<>();
    splits.values().forEach(parts -> newest.add(parts.get(parts.size() - 1)));
    return Positions.readTo(newest);
  }

  private SplitRows<T> begin(String name, long number) {
    SplitRows<T> part = new SplitRows<>(name, number, fingerprint(name, number));
    splits.computeIfAbsent(name, n -> new ArrayList<>()).add(part);
    return part;
  }

  private Long fingerprint(String name, long number) {
    if (number == 0) {
      return 0L;
    }
    for (Positions read : othersRead) {
      if (read.consumed(name) == number) {
        return read.fingerprint(name);
      }
    }
    return null;
  }

  private static <T> void join(List<SplitRows<T>> parts) {
    parts.sort(
        Comparator.<SplitRows<T>>comparingLong(SplitRows::first)
            .thenComparingLong(SplitRows::next));
    for (int i = parts.size() - 1; i > 0; i--) {
      SplitRows<T> before = parts.get(i - 1);
      SplitRows<T> after = parts.get(i);
      if (before.next() > after.first()) {
        throw twice(after.toString(), before.toString());
      }
      if (before.next() == after.first()) {
        before.append(after);
        parts.remove(i);
      }
    }
  }

  private static RejoinException twice(String rows, String before) {
    return new RejoinException(
        RejoinException.Code.MISMATCH,
        "a rank has got "
            + rows
            + ", and had "
            + before
            + " already. Each row of a split has one number, and each split one reader for the life"
            + " of the job (docs/flink.md, Sources)");
  }
}
