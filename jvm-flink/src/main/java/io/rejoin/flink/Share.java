package io.rejoin.flink;

/**
 * Rows of one split that a rank puts into a version: those with the numbers from {@code first} on.
 * None ({@code rows} is 0) says that the rank has rows of the split from there on which it doesn't
 * put in.
 */
final class Share {
  final String split;
  final long first;
  final int rows;

  /** The sum of the rows' marks ({@link RowBuffer}). */
  final long fingerprint;

  Share(String split, long first, int rows, long fingerprint) {
    this.split = split;
    this.first = first;
    this.rows = rows;
    this.fingerprint = fingerprint;
  }

  @Override
  public String toString() {
    return rows + " rows of " + split + " from row " + first + " on";
  }
}
