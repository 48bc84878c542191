package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The rows of one split that a rank keeps, numbered as they come from the split. */
final class SplitRows<T> {
  private final String name;
  private final ArrayDeque<Row<T>> rows = new ArrayDeque<>();
  private long first;
  // The sum of the marks of all rows before the first; null where it isn't known.
  private Long fingerprint;

  SplitRows(String name, long first, Long fingerprint) {
    this.name = name;
    this.first = first;
    this.fingerprint = fingerprint;
  }

  String name() {
    return name;
  }

  /** The number of the first row that is kept. */
  long first() {
    return first;
  }

  /** The number that the next row will have. */
  long next() {
    return first + rows.size();
  }

  int size() {
    return rows.size();
  }

  void add(T row, long hash) {
    rows.add(new Row<>(row, hash));
  }

  SplitRows<T> copy() {
    SplitRows<T> copy = new SplitRows<>(name, first, fingerprint);
    copy.rows.addAll(rows);
    return copy;
  }

  /**
   * Drops the rows before this number, which are in a model with these positions.
   *
   * @throws RejoinException MISMATCH when the model was trained on other ones
   */
  void dropUntil(long number, Positions positions) {
    while (first < number && !rows.isEmpty()) {
      long mark = mark(rows.poll().hash, first++);
      fingerprint = fingerprint == null ? null : fingerprint + mark;
    }
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

  /** The sum of the marks of the rows from one number to before another one, which are here. */
  long fingerprint(long from, long to, List<T> into) {
    Iterator<Row<T>> next = rows.iterator();
    long sum = 0;
    for (long number = first; number < to; number++) {
      Row<T> row = next.next();
      if (number >= from) {
        sum += mark(row.hash, number);
        if (into != null) {
          into.add(row.value);
        }
      }
    }
    return sum;
  }

  void write(TypeSerializer<T> serializer, DataOutputView out) throws IOException {
    out.writeUTF(name);
    out.writeLong(first);
    out.writeBoolean(fingerprint != null);
    out.writeLong(fingerprint == null ? 0 : fingerprint);
    out.writeInt(rows.size());
    for (Row<T> row : rows) {
      out.writeLong(row.hash);
      serializer.serialize(row.value, out);
    }
  }

  static <T> SplitRows<T> read(TypeSerializer<T> serializer, DataInputView in) throws IOException {
    String name = in.readUTF();
    long first = in.readLong();
    boolean known = in.readBoolean();
    long fingerprint = in.readLong();
    SplitRows<T> split = new SplitRows<>(name, first, known ? fingerprint : null);
    for (int left = in.readInt(); left > 0; left--) {
      long hash = in.readLong();
      split.add(serializer.deserialize(in), hash);
    }
    return split;
  }

  /** A row's part in a fingerprint, which depends on its number as well. */
  private static long mark(long hash, long number) {
    long mixed = hash ^ ((number + 1) * 0x9E3779B97F4A7C15L);
    mixed = (mixed ^ (mixed >>> 32)) * 0xD6E8FEB86659FD93L;
    return mixed ^ (mixed >>> 32);
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

  private static final class Row<T> {
    private final T value;
    private final long hash;

    Row(T value, long hash) {
      this.value = value;
      this.hash = hash;
    }
  }
}
