package io.rejoin.flink;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Rows that come in no fixed order, all of which are kept until the last one has come: their order
 * is that of their hashes then, the same in every attempt and every run.
 */
final class UnorderedRows<T> {
  private final List<T> rows = new ArrayList<>();
  private long[] hashes = new long[1024];

  /** A row has come, with the hash of its content. */
  void add(T row, long hash) {
    if (rows.size() == hashes.length) {
      hashes = Arrays.copyOf(hashes, 2 * hashes.length);
    }
    hashes[rows.size()] = hash;
    rows.add(row);
  }

  /** What takes a row. */
  interface Taker<T> {
    /** Takes one. */
    void take(T row, long hash) throws Exception;
  }

  /** Gives all in their order; each is kept no longer. */
  void giveTo(Taker<T> taker) throws Exception {
    int[] order = Sorting.sorted(rows.size(), (a, b) -> Long.compare(hashes[a], hashes[b]));
    for (int index : order) {
      taker.take(rows.set(index, null), hashes[index]);
    }
    rows.clear();
  }
}
