package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.Serializable;
import java.util.Objects;
import org.apache.flink.api.java.functions.KeySelector;
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

  /** What orders a record's row before its content does, where rows come in no fixed order. */
  default long key(R record) throws Exception {
    return 0;
  }

  /** Whether such keys were given, and rows are to be in their order however they come. */
  default boolean isByKey() {
    return false;
  }

  /** Of records that are rows, in the order of their keys. */
  final class ByKey<T> implements Intake<T, T> {
    private static final long serialVersionUID = 1L;

    private final Intake<T, T> rows = new BySubtask<>();
    private final KeySelector<T, Long> order;

    ByKey(KeySelector<T, Long> order) {
      this.order = order;
    }

    @Override
    public T row(T record) {
      return rows.row(record);
    }

    @Override
    public void add(Inbox<T> inbox, T record, T row, long hash, String subtask) {
      rows.add(inbox, record, row, hash, subtask);
    }

    @Override
    public boolean isBySplit() {
      return rows.isBySplit();
    }

    @Override
    public long key(T record) throws Exception {
      Long key = order.getKey(record);
      if (key == null) {
        throw new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "Rejoin.trainInOrder got no key of the row "
                + record
                + "; expected a number of each row");
      }
      return key;
    }

    @Override
    public boolean isByKey() {
      return true;
    }
  }

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
