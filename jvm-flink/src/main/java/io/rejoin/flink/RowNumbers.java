package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.Set;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Reads numbers from the columns of a {@link Row}, by their names. All methods throw a {@link
 * RejoinException} of BAD_ARGUMENT with the column for one that isn't there or of another type.
 */
public final class RowNumbers {
  private RowNumbers() {}

  /**
   * Refuses a row that changes or takes back an earlier one.
   *
   * @throws RejoinException BAD_ARGUMENT with the row's kind
   */
  public static void requireInsert(Row row) {
    if (row.getKind() != RowKind.INSERT) {
      throw refused(
          "rows that are only added expected, one of the kind "
              + row.getKind()
              + " seen. What was trained on can't be taken back: use a query without updates");
    }
  }

  /** A column's number (of whatever type) or BOOLEAN, which is 1 or 0. */
  public static double number(Row row, String column) {
    return number(value(row, column), column, false);
  }

  /**
   * The numbers of columns, one after the other; a column of arrays has as many as its array.
   *
   * @param nullIsNan whether NULLs are taken as NaN, and not refused
   */
  public static double[] numbers(Row row, String[] columns, boolean nullIsNan) {
    double[] numbers = new double[columns.length];
    int length = 0;
    for (String column : columns) {
      Object value = value(row, column);
      boolean array = value != null && value.getClass().isArray();
      int more = array ? Array.getLength(value) : 1;
      if (length + more > numbers.length) {
        numbers = Arrays.copyOf(numbers, length + more);
      }
      for (int i = 0; i < more; i++) {
        numbers[length++] = number(array ? Array.get(value, i) : value, column, nullIsNan);
      }
    }
    return length == numbers.length ? numbers : Arrays.copyOf(numbers, length);
  }

  /** A column's whole number: a TINYINT, SMALLINT, INT or BIGINT. */
  public static long wholeNumber(Row row, String column) {
    Object value = value(row, column);
    if (value instanceof Long
        || value instanceof Integer
        || value instanceof Short
        || value instanceof Byte) {
      return ((Number) value).longValue();
    }
    throw refused("a whole number (TINYINT, SMALLINT, INT or BIGINT)", value, column);
  }

  /** A column's BOOLEAN. */
  public static boolean flag(Row row, String column) {
    Object value = value(row, column);
    if (value instanceof Boolean) {
      return (Boolean) value;
    }
    throw refused("a BOOLEAN", value, column);
  }

  private static Object value(Row row, String column) {
    Set<String> columns = row.getFieldNames(true);
    if (columns == null) {
      throw refused(
          "rows with the names of columns expected, one without seen. Make the stream by"
              + " StreamTableEnvironment.toDataStream, or give it the type Types.ROW_NAMED (and"
              + " with object reuse make the rows by Row.withNames)");
    }
    if (!columns.contains(column)) {
      throw refused(
          "the column '" + column + "' expected, these seen: " + String.join(", ", columns));
    }
    return row.getField(column);
  }

  private static double number(Object value, String column, boolean nullIsNan) {
    if (value instanceof Number) {
      return ((Number) value).doubleValue();
    }
    if (value instanceof Boolean) {
      return (Boolean) value ? 1 : 0;
    }
    if (value == null && nullIsNan) {
      return Double.NaN;
    }
    throw refused("a number or BOOLEAN", value, column);
  }

  private static RejoinException refused(String expected, Object seen, String column) {
    return refused(
        expected
            + " expected in the column '"
            + column
            + "', "
            + (seen == null ? "NULL" : seen.getClass().getSimpleName())
            + " seen. Cast it, fill it in or leave the row out, in the query");
  }

  private static RejoinException refused(String message) {
    return new RejoinException(RejoinException.Code.BAD_ARGUMENT, message);
  }
}
