package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows of one split that a rank keeps, numbered as they come from the split, without a gap. A
 * number may be without a row: that one was filtered out.
 */
final class SplitRows<T> {
  private final String name;
  private final ArrayDeque<Row<T>> rows = new ArrayDeque<>();
  private long first;
  private long next;
  // The sum of the marks of all rows before the first number; null where it isn't known.
  private Long fingerprint;

  SplitRows(String name, long first, Long fingerprint) {
    this.name = name;
    this.first = first;
    this.next = first;
    this.fingerprint = fingerprint;
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
    return rows.size();
  }

  /** The row of the next number, with the hash of its bytes. */
  void add(T row, long hash) {
    rows.add(new Row<>(next++, row, hash));
  }

  /** The next number has no row. */
  void skip() {
    next++;
  }

  /** The rows that follow on these; they are no longer the other's. */
  void append(SplitRows<T> following) {
    rows.addAll(following.rows);
    next = following.next;
  }

  SplitRows<T> copy() {
    SplitRows<T> copy = new SplitRows<>(name, first, fingerprint);
    copy.rows.addAll(rows);
    copy.next = next;
    return copy;
  }

  /**
   * Drops the rows before this number, which are in a model with these positions.
   *
   * @throws RejoinException MISMATCH when the model was trained on other ones
   */
  void dropUntil(long number, Positions positions) {
    long end = Math.min(number, next);
    while (!rows.isEmpty() && rows.peek().number < end) {
      long mark = rows.poll().mark();
      fingerprint = fingerprint == null ? null : fingerprint + mark;
    }
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
    int count = 0;
    for (Row<T> row : rows) {
      if (row.number >= to) {
        break;
      }
      count += row.number >= from ? 1 : 0;
    }
    return count;
  }

  /** Where so many rows from a number on end: the number of the row after them. */
  long end(long from, int count) {
    int left = count;
    for (Row<T> row : rows) {
      if (row.number >= from && left-- == 0) {
        return row.number;
      }
    }
    return next;
  }

  /** The sum of the marks of the rows from one number to before another one. */
  long fingerprint(long from, long to, List<T> into) {
    long sum = 0;
    Iterator<Row<T>> all = rows.iterator();
    for (Row<T> row = step(all); row != null && row.number < to; row = step(all)) {
      if (row.number >= from) {
        sum += row.mark();
        if (into != null) {
          into.add(row.value);
        }
      }
    }
    return sum;
  }

  /** The sum of the marks of all rows before the next number; null where it isn't known. */
  Long fingerprintOfAll() {
    return fingerprint == null ? null : fingerprint + fingerprint(first, next, null);
  }

  private static <R> R step(Iterator<R> all) {
    return all.hasNext() ? all.next() : null;
  }

  void write(TypeSerializer<T> serializer, DataOutputView out) throws IOException {
    out.writeUTF(name);
    out.writeLong(first);
    out.writeLong(next);
    out.writeBoolean(fingerprint != null);
    out.writeLong(fingerprint == null ? 0 : fingerprint);
    out.writeInt(rows.size());
    for (Row<T> row : rows) {
      out.writeLong(row.number);
      out.writeLong(row.hash);
      serializer.serialize(row.value, out);
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
      long hash = in.readLong();
      split.add(serializer.deserialize(in), hash);
    }
    split.next = next;
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

  private static final class Row<T> {
    private final long number;
    private final T value;
    private final long hash;

    Row(long number, T value, long hash) {
      this.number = number;
      this.value = value;
      this.hash = hash;
    }

    /** Its part in a fingerprint, which depends on its number as well. */
    long mark() {
      long mixed = hash ^ ((number + 1) * 0x9E3779B97F4A7C15L);
      mixed = (mixed ^ (mixed >>> 32)) * 0xD6E8FEB86659FD93L;
      return mixed ^ (mixed >>> 32);
    }
  }
}
