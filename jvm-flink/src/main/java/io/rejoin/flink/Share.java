package io.rejoin.flink;

/**
 * Rows of one split that a rank puts into a version: those with so many numbers from {@code first}
 * on. None ({@code numbers} is 0) says that the rank has rows of the split from there on which it
 * doesn't put in.
 */
final class Share {
  final String split;
  final long first;

  /** How many; some may be without a row, which was filtered out. */
  final long numbers;

  /** The sum of the rows' marks ({@link SplitRows}). */
  final long fingerprint;

  Share(String split, long first, long numbers, long fingerprint) {
    this.split = split;
    this.first = first;
    this.numbers = numbers;
    this.fingerprint = fingerprint;
  }

  @Override
  public String toString() {
    return numbers + " rows of " + split + " from row " + first + " on";
  }
}
