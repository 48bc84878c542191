package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows of one split that a rank keeps, numbered as they come from the split, without a gap. A
 * number may be without a row: that one was filtered out. Sums of the rows' marks are kept, so that
 * nothing but adding a row has to look at each row.
 */
final class SplitRows<T> {
  private static final int FIRST_CAPACITY = 16;

  private final String name;
  private long first;
  private long next;
  // The sum of the marks of all rows before the first number; null where it isn't known.
  private Long fingerprint;
  // The rows that are kept, from head to before tail: their numbers, and for each the sum of its
  // mark and those of all rows that have come here before it.
  private Object[] values;
  private long[] numbers;
  private long[] sums;
  private int head;
  private int tail;
  // The sum before the row at head.
  private long dropped;
  // Rows before this number have been given to be trained on.
  private long given;
  // Rows before this number have marks that an older serializer may have made.
  private long restoredUntil;

  SplitRows(String name, long first, Long fingerprint) {
    this(name, first, fingerprint, FIRST_CAPACITY);
  }

  private SplitRows(String name, long first, Long fingerprint, int capacity) {
    this.name = name;
    this.first = first;
    this.next = first;
    this.fingerprint = fingerprint;
    this.values = new Object[capacity];
    this.numbers = new long[capacity];
    this.sums = new long[capacity];
  }

  String name() {
    return name;
  }

  /** The first number that is kept. */
  long first() {
    return first;
  }

  /** The number that comes next. */
  long next() {
    return next;
  }

  /** How many rows are kept. */
  int size() {
    return tail - head;
  }

  /** The row of the next number, with the hash of its content. */
  void add(T row, long hash) {
    addMarked(row, mark(next, hash));
  }

  private void addMarked(Object row, long mark) {
    if (tail == values.length) {
      makeRoom();
    }
    values[tail] = row;
    numbers[tail] = next++;
    sums[tail] = sum(tail) + mark;
    tail++;
  }

  private void makeRoom() {
    int size = size();
    int capacity = size > values.length / 2 ? 2 * values.length : values.length;
    capacity = Math.max(FIRST_CAPACITY, capacity);
    moveTo(new Object[capacity], new long[capacity], new long[capacity]);
    head = 0;
    tail = size;
  }

  private void moveTo(Object[] newValues, long[] newNumbers, long[] newSums) {
    System.arraycopy(values, head, newValues, 0, size());
    System.arraycopy(numbers, head, newNumbers, 0, size());
    System.arraycopy(sums, head, newSums, 0, size());
    values = newValues;
    numbers = newNumbers;
    sums = newSums;
  }

  /** Gives back the memory for rows, when there are none. */
  void shrink() {
    if (size() == 0 && values.length > 0) {
      moveTo(new Object[0], new long[0], new long[0]);
      head = 0;
      tail = 0;
    }
  }

  /** The sum of the marks of all rows before the first number; null where it isn't known. */
  void follows(Long sum) {
    fingerprint = fingerprint == null ? sum : fingerprint;
  }

  /** The next number has no row. */
  void skip() {
    next++;
  }

  /** The rows that follow on these; they are no longer the other's. */
  void append(SplitRows<T> following) {
    for (int row = following.head; row < following.tail; row++) {
      next = following.numbers[row];
      addMarked(following.values[row], following.sums[row] - following.sum(row));
    }
    next = following.next;
    restoredUntil = Math.max(restoredUntil, following.restoredUntil);
    given = Math.max(given, following.given);
  }

  /** A copy in pieces that follow on each other: as many rows of each, at least one, and all. */
  List<SplitRows<T>> pieces(List<Integer> counts) {
    List<SplitRows<T>> pieces = new ArrayList<>();
    int from = head;
    for (int piece = 0; piece < counts.size(); piece++) {
      boolean isLast = piece == counts.size() - 1;
      int to = from + counts.get(piece);
      pieces.add(piece(piece == 0 ? first : numbers[from], isLast ? next : numbers[to], from, to));
      from = to;
    }
    return pieces;
  }

  private SplitRows<T> piece(long start, long end, int from, int to) {
    Long before = fingerprint == null ? null : Long.valueOf(fingerprint + sum(from) - dropped);
    SplitRows<T> piece = new SplitRows<>(name, start, before, 0);
    piece.next = end;
    piece.values = Arrays.copyOfRange(values, from, to);
    piece.numbers = Arrays.copyOfRange(numbers, from, to);
    piece.sums = Arrays.copyOfRange(sums, from, to);
    piece.tail = to - from;
    piece.dropped = sum(from);
    piece.restoredUntil = restoredUntil;
    return piece;
  }

  /**
   * Drops the rows before this number, which are in a model with these positions.
   *
   * @throws RejoinException MISMATCH when the model was trained on other ones
   */
  void dropUntil(long number, Positions positions) {
    long end = Math.min(number, next);
    int kept = index(end);
    if (fingerprint != null) {
      fingerprint += sum(kept) - dropped;
    }
    dropped = sum(kept);
    Arrays.fill(values, head, kept, null);
    head = kept;
    first = Math.max(first, end);
    if (first != positions.consumed(name)) {
      return;
    }
    if (fingerprint == null) {
      fingerprint = positions.fingerprint(name);
    } else if (fingerprint != positions.fingerprint(name)) {
      throw others(
          "rows 0 to " + (first - 1) + " of " + name,
          "some have other bytes, or another order, here");
    }
  }

  /** How many rows there are from one number to before another one. */
  int count(long from, long to) {
    return Math.max(0, index(to) - index(from));
  }

  /** Where so many rows from a number on end: the number of the row after them. */
  long end(long from, int count) {
    int after = index(from) + count;
    return after < tail ? numbers[after] : next;
  }

  /** The sum of the marks of the rows from one number to before another one. */
  long fingerprint(long from, long to) {
    return to <= from ? 0 : sum(index(to)) - sum(index(from));
  }

  /**
   * Adds the rows from one number to before another one; those that were given before have to be
   * what they were.
   *
   * @throws RejoinException MISMATCH when one isn't
   */
  @SuppressWarnings("unchecked")
  void copyTo(List<T> into, long from, long to, ContentHash<T> hash) throws IOException {
    check(hash, from, Math.min(to, given));
    given = Math.max(given, to);
    // A copied range is added as a block of memory, a part of a list row by row.
    into.addAll((List<T>) Arrays.asList(Arrays.copyOfRange(values, index(from), index(to))));
  }

  /** The sum of the marks of all rows before the next number; null where it isn't known. */
  Long fingerprintOfAll() {
    return fingerprint == null ? null : fingerprint + sum(tail) - dropped;
  }

  /** Where the first row of this number or a later one is. */
  private int index(long number) {
    int found = Arrays.binarySearch(numbers, head, tail, number);
    return found >= 0 ? found : -found - 1;
  }

  /** The sum of the marks of the rows before this place. */
  private long sum(int index) {
    return index == head ? dropped : sums[index - 1];
  }

  /** A row's part in a fingerprint, which depends on its number as well. */
  private static long mark(long number, long hash) {
    long mixed = hash ^ ((number + 1) * 0x9E3779B97F4A7C15L);
    mixed = (mixed ^ (mixed >>> 32)) * 0xD6E8FEB86659FD93L;
    return mixed ^ (mixed >>> 32);
  }

  /** Looks whether the rows from one number to before another one are still what has come. */
  private void check(ContentHash<T> hash, long from, long to) throws IOException {
    int end = index(to);
    for (int row = index(from); row < end; row++) {
      check(hash, row);
    }
  }

  @SuppressWarnings("unchecked")
  private void check(ContentHash<T> hash, int row) throws IOException {
    long number = numbers[row];
    long mark = sums[row] - sum(row);
    if (number >= restoredUntil && mark(number, hash.of((T) values[row])) != mark) {
      throw new RejoinException(
          RejoinException.Code.MISMATCH,
          "row "
              + number
              + " of "
              + name
              + " isn't what it was when it came: TrainerFunction.onBatch has changed it, or"
              + " another function that has the same object. Rows are trained on again after a"
              + " restart; copy a row, and change the copy");
    }
  }

  /**
   * @throws RejoinException MISMATCH when a row was changed since it has come
   */
  @SuppressWarnings("unchecked")
  void write(TypeSerializer<T> serializer, ContentHash<T> hash, DataOutputView out)
      throws IOException {
    out.writeUTF(name);
    out.writeLong(first);
    out.writeLong(next);
    out.writeBoolean(fingerprint != null);
    out.writeLong(fingerprint == null ? 0 : fingerprint);
    out.writeInt(size());
    for (int row = head; row < tail; row++) {
      out.writeLong(numbers[row]);
      out.writeLong(sums[row] - sum(row));
      check(hash, row);
      serializer.serialize((T) values[row], out);
    }
  }

  static <T> SplitRows<T> read(TypeSerializer<T> serializer, DataInputView in) throws IOException {
    String name = in.readUTF();
    long first = in.readLong();
    long next = in.readLong();
    boolean known = in.readBoolean();
    long fingerprint = in.readLong();
    SplitRows<T> split = new SplitRows<>(name, first, known ? fingerprint : null);
    for (int left = in.readInt(); left > 0; left--) {
      split.next = in.readLong();
      long mark = in.readLong();
      split.addMarked(serializer.deserialize(in), mark);
    }
    split.next = next;
    split.restoredUntil = next;
    return split;
  }

  /** The error for rows that are not those that the model was trained on. */
  static RejoinException others(String rows, String seen) {
    return new RejoinException(
        RejoinException.Code.MISMATCH,
        rows
            + " are in the model and were read again, but "
            + seen
            + ". A source has to give the rows of a split in the same order whenever it reads it"
            + " again, and equal rows have to be serialized to equal bytes (docs/flink.md,"
            + " Sources)");
  }

  @Override
  public String toString() {
    return "rows " + first + " to " + (next - 1) + " of " + name;
  }
}
