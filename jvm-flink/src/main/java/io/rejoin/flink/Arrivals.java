package io.rejoin.flink;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Predicate;

/**
 * Of which splits the rows are that aren't in the model yet, in the order in which they have come.
 * Rows of one split that came one after the other are one entry.
 */
final class Arrivals<T> {
  private final ArrayDeque<Run<T>> runs = new ArrayDeque<>();
  private int size;

  /** How many rows. */
  int size() {
    return size;
  }

  /** So many rows of this split have come. */
  void add(SplitRows<T> split, int rows) {
    Run<T> last = runs.peekLast();
    if (last != null && last.split == split) {
      last.rows += rows;
    } else if (rows > 0) {
      runs.add(new Run<>(split, rows));
    }
    size += rows;
  }

  /** The same of rows that were there before all others. */
  void addFirst(SplitRows<T> split, int rows) {
    runs.addFirst(new Run<>(split, rows));
    size += rows;
  }

  void clear() {
    runs.clear();
    size = 0;
  }

  /** How many rows of each split. */
  Map<SplitRows<T>, Integer> counts() {
    Map<SplitRows<T>, Integer> counts = new HashMap<>();
    forEach((split, rows) -> counts.merge(split, rows, Integer::sum));
    return counts;
  }

  /** The splits and how many rows of each came one after the other, oldest first. */
  void forEach(BiConsumer<SplitRows<T>, Integer> run) {
    runs.forEach(one -> run.accept(one.split, one.rows));
  }

  /** Of which splits the oldest rows are, at most so many of those splits that are wanted. */
  Map<SplitRows<T>, Integer> oldest(int most, Predicate<SplitRows<T>> isWanted) {
    Map<SplitRows<T>, Integer> counts = new HashMap<>();
    int left = most;
    for (Run<T> run : runs) {
      if (left == 0) {
        break;
      }
      if (isWanted.test(run.split)) {
        int rows = Math.min(left, run.rows);
        counts.merge(run.split, rows, Integer::sum);
        left -= rows;
      }
    }
    return counts;
  }

  /** The oldest rows of these splits are in the model now: so many of each. */
  void drop(Map<SplitRows<T>, Integer> counts) {
    Map<SplitRows<T>, Integer> left = new HashMap<>(counts);
    for (Iterator<Run<T>> all = runs.iterator(); all.hasNext() && !left.isEmpty(); ) {
      Run<T> run = all.next();
      Integer rows = left.get(run.split);
      if (rows != null) {
        int dropped = Math.min(rows, run.rows);
        size -= dropped;
        run.rows -= dropped;
        if (run.rows == 0) {
          all.remove();
        }
        left.computeIfPresent(run.split, (split, n) -> n == dropped ? null : n - dropped);
      }
    }
  }

  private static final class Run<T> {
    private final SplitRows<T> split;
    private int rows;

    Run(SplitRows<T> split, int rows) {
      this.split = split;
      this.rows = rows;
    }
  }
}
