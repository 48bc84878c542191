package io.rejoin.flink;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.types.Row;

/**
 * A row with the split that it comes from, and its number there. Such a record is one of Flink's
 * {@link Row}s, whose fields may be null: a row that was filtered out leaves its number.
 */
final class NumberedRow {
  private static final int SPLIT = 0;
  private static final int NUMBER = 1;
  private static final int ROW = 2;

  private NumberedRow() {}

  static Row of(String split, long number, Object row) {
    return Row.of(split, number, row);
  }

  static String split(Row record) {
    return (String) record.getField(SPLIT);
  }

  static long number(Row record) {
    return (Long) record.getField(NUMBER);
  }

  /** The row itself; null if it was filtered out. */
  @SuppressWarnings("unchecked") // the stream's type says what the rows are
  static <T> T row(Row record) {
    return (T) record.getField(ROW);
  }

  /** The same number with another row, or with none. */
  static Row with(Row record, Object row) {
    return Row.of(record.getField(SPLIT), record.getField(NUMBER), row);
  }

  static TypeInformation<Row> type(TypeInformation<?> row) {
    return Types.ROW(Types.STRING, Types.LONG, row);
  }
}
