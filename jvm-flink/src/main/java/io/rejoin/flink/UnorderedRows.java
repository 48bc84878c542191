package io.rejoin.flink;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Rows whose order isn't that in which they come, all of which are kept until the last one has
 * come: it is that of their keys then, and of equal ones that of their hashes, the same in every
 * attempt and every run.
 */
final class UnorderedRows<T> {
  private final List<T> rows = new ArrayList<>();
  private long[] keys = new long[1024];
  private long[] hashes = new long[1024];

  /** A row has come, with its key and the hash of its content. */
  void add(T row, long key, long hash) {
    if (rows.size() == hashes.length) {
      keys = Arrays.copyOf(keys, 2 * keys.length);
      hashes = Arrays.copyOf(hashes, 2 * hashes.length);
    }
    keys[rows.size()] = key;
    hashes[rows.size()] = hash;
    rows.add(row);
  }

  private int compare(int one, int other) {
    int byKey = Long.compare(keys[one], keys[other]);
    return byKey == 0 ? Long.compare(hashes[one], hashes[other]) : byKey;
  }

  /** What takes a row. */
  interface Taker<T> {
    /** Takes one. */
    void take(T row, long hash) throws Exception;
  }

  /** Gives all in their order; each is kept no longer. */
  void giveTo(Taker<T> taker) throws Exception {
    int[] order = Sorting.sorted(rows.size(), this::compare);
    for (int index : order) {
      taker.take(rows.set(index, null), hashes[index]);
    }
    rows.clear();
  }
}
