package io.rejoin.flink;

import java.io.Serializable;
import java.util.Objects;
import org.apache.flink.types.Row;

/**
 * How a trainer takes rows out of the records that come to it.
 *
 * @param <R> a record of the stream
 * @param <T> a row
 */
interface Intake<R, T> extends Serializable {
  /** The row of a record; null for one that was filtered out. */
  T row(R record);

  /**
   * Puts a record's row into the inbox.
   *
   * @param hash of the row's content
   * @param subtask the name of all rows that come to this subtask, where they have no other split
   */
  void add(Inbox<T> inbox, R record, T row, long hash, String subtask);

  /** Whether rows have the numbers of their splits, which stay theirs at another parallelism. */
  boolean isBySplit();

  /** Of records that are rows, numbered as they come to a subtask. */
  final class BySubtask<T> implements Intake<T, T> {
    private static final long serialVersionUID = 1L;

    @Override
    public T row(T record) {
      return Objects.requireNonNull(record, "a row to train on is null");
    }

    @Override
    public void add(Inbox<T> inbox, T record, T row, long hash, String subtask) {
      inbox.add(subtask, Inbox.NEXT, row, hash);
    }

    @Override
    public boolean isBySplit() {
      return false;
    }
  }

  /** Of the records of a {@link SplitStream}. */
  final class BySplit<T> implements Intake<Row, T> {
    private static final long serialVersionUID = 1L;

    @Override
    public T row(Row record) {
      return NumberedRow.row(record);
    }

    @Override
    public void add(Inbox<T> inbox, Row record, T row, long hash, String subtask) {
      inbox.add(NumberedRow.split(record), NumberedRow.number(record), row, hash);
    }

    @Override
    public boolean isBySplit() {
      return true;
    }
  }
}
