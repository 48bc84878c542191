package io.rejoin.flink.trainers;

import java.util.Arrays;
import java.util.TreeMap;

/**
 * The distinct rows among those that are added, each with its weight; of more than so many, those
 * with the lowest keys. A row's key is a random number that the seed and its features alone decide,
 * so neither the order of rows nor the rank that has them does. A row without weight is none.
 *
 * <p>A table of them is one array: for each row its features and then its weight.
 */
final class DistinctRows {
  // The increment of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
  private static final long GOLDEN = 0x9e3779b97f4a7c15L;

  private final int most;
  private final int features;
  private final long seed;
  private final TreeMap<Entry, Entry> rows = new TreeMap<>();

  DistinctRows(int most, int features, long seed) {
    this.most = most;
    this.features = features;
    this.seed = seed;
  }

  void add(double[] row, double weight) {
    if (weight == 0) {
      return;
    }
    Entry entry = new Entry(normalized(row), weight);
    Entry same = rows.putIfAbsent(entry, entry);
    if (same != null) {
      same.weight += weight;
    } else if (rows.size() > most) {
      rows.pollLastEntry();
    }
  }

  /** The rows of a table. */
  void addAll(double[] table) {
    for (int at = 0; at < table.length; at += features + 1) {
      add(Arrays.copyOfRange(table, at, at + features), table[at + features]);
    }
  }

  /** In the order of their keys. */
  double[] table() {
    double[] table = new double[rows.size() * (features + 1)];
    int at = 0;
    for (Entry entry : rows.keySet()) {
      System.arraycopy(entry.row, 0, table, at, features);
      table[at + features] = entry.weight;
      at += features + 1;
    }
    return table;
  }

  /** A copy in which a zero has no sign, since two rows that differ in it alone are the same. */
  private static double[] normalized(double[] row) {
    double[] copy = new double[row.length];
    for (int i = 0; i < row.length; i++) {
      copy[i] = row[i] + 0.0;
    }
    return copy;
  }

  private long key(double[] row) {
    long key = mixed(seed + GOLDEN);
    for (double feature : row) {
      key = mixed((key ^ Double.doubleToLongBits(feature)) + GOLDEN);
    }
    return key;
  }

  /** SplitMix64's output function: each bit of it depends on all bits of its input. */
  private static long mixed(long bits) {
    bits = (bits ^ (bits >>> 30)) * 0xbf58476d1ce4e5b9L;
    bits = (bits ^ (bits >>> 27)) * 0x94d049bb133111ebL;
    return bits ^ (bits >>> 31);
  }

  private final class Entry implements Comparable<Entry> {
    private final long key;
    private final double[] row;
    private double weight;

    Entry(double[] row, double weight) {
      this.key = key(row);
      this.row = row;
      this.weight = weight;
    }

    @Override
    public int compareTo(Entry other) {
      int byKey = Long.compare(key, other.key);
      return byKey != 0 ? byKey : Arrays.compare(row, other.row);
    }
  }
}
