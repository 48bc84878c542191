package io.rejoin.flink;

import java.util.Arrays;

/**
 * Rows that have come to Flink's thread and go into the {@link RowBuffer} together: where the
 * trainer's thread doesn't wait for them, a row needs no lock of its own. Flink's thread alone uses
 * it.
 */
final class Inbox<T> {
  /** In the place of a number: the row is its split's next one. */
  static final long NEXT = -1;

  private final RowBuffer<T> buffer;
  private final String[] splits;
  private final long[] numbers;
  private final Object[] rows;
  private final long[] hashes;
  private int size;

  /** One that brings at most so many rows at once. */
  Inbox(RowBuffer<T> buffer, int capacity) {
    this.buffer = buffer;
    this.splits = new String[capacity];
    this.numbers = new long[capacity];
    this.rows = new Object[capacity];
    this.hashes = new long[capacity];
  }

  /**
   * A row has come.
   *
   * @param number within its split, or {@link #NEXT}
   * @param row null for one that was filtered out
   * @param hash of its content
   * @throws io.rejoin.RejoinException as {@link RowBuffer#add}, for this row or an earlier one
   */
  void add(String split, long number, T row, long hash) {
    splits[size] = split;
    numbers[size] = number;
    rows[size] = row;
    hashes[size] = hash;
    size++;
    if (size == rows.length || buffer.isAwaited()) {
      bring();
    }
  }

  /** Brings all rows that have come to the buffer. */
  void bring() {
    if (size > 0) {
      buffer.add(this);
      Arrays.fill(rows, 0, size, null);
      size = 0;
    }
  }

  int size() {
    return size;
  }

  String split(int index) {
    return splits[index];
  }

  long number(int index) {
    return numbers[index];
  }

  @SuppressWarnings("unchecked")
  T row(int index) {
    return (T) rows[index];
  }

  long hash(int index) {
    return hashes[index];
  }
}
