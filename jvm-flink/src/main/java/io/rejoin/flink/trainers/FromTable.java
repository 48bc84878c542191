package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;
import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.Set;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Makes {@link LabeledRow}s of a Table's rows, by the names of columns. A Table becomes a stream of
 * such rows by {@code StreamTableEnvironment.toDataStream}:
 *
 * <pre>{@code
 * DataStream<LabeledRow> rows =
 *     tables.toDataStream(table).map(new FromTable("age", "income").label("clicked").weight("n"));
 * }</pre>
 *
 * <p>A column of features has numbers (of whatever type) or BOOLEANs, which are 1 and 0, or arrays
 * of these, each element of which is a feature. Label and weight are one number or BOOLEAN each.
 * Without a column for them a row has no label (NaN) and the weight 1. What a trainer can't use,
 * such as NaN, is left to the trainer to refuse. Any stream of {@link Row}s with names serves; this
 * class needs no class of the Table API.
 *
 * <p>A row without one of the columns, a NULL, another type, and a row that changes or takes back
 * an earlier one (of {@code toChangelogStream}) fail the task with a {@link RejoinException} of
 * BAD_ARGUMENT that names the column.
 */
public final class FromTable implements MapFunction<Row, LabeledRow> {
  private static final long serialVersionUID = 1L;

  private final String[] features;
  private final String label;
  private final String weight;

  /**
   * With features from these columns, in this order.
   *
   * @throws RejoinException BAD_ARGUMENT for none
   */
  public FromTable(String... features) {
    this(features.clone(), null, null);
  }

  private FromTable(String[] features, String label, String weight) {
    Checks.require(features.length > 0, "the list of features", "one of columns", "none");
    this.features = features;
    this.label = label;
    this.weight = weight;
  }

  /** A copy that takes the label from this column. */
  public FromTable label(String column) {
    return new FromTable(features, column, weight);
  }

  /** A copy that takes the weight from this column. */
  public FromTable weight(String column) {
    return new FromTable(features, label, column);
  }

  @Override
  public LabeledRow map(Row row) {
    if (row.getKind() != RowKind.INSERT) {
      throw refused(
          "rows that are only added expected, one of the kind "
              + row.getKind()
              + " seen. What was trained on can't be taken back: use a query without updates");
    }
    return new LabeledRow(
        features(row),
        label == null ? Double.NaN : number(value(row, label), label),
        weight == null ? 1 : number(value(row, weight), weight));
  }

  private double[] features(Row row) {
    double[] numbers = new double[features.length];
    int length = 0;
    for (String column : features) {
      Object value = value(row, column);
      boolean array = value.getClass().isArray();
      int more = array ? Array.getLength(value) : 1;
      if (length + more > numbers.length) {
        numbers = Arrays.copyOf(numbers, length + more);
      }
      for (int i = 0; i < more; i++) {
        numbers[length++] = number(array ? Array.get(value, i) : value, column);
      }
    }
    return length == numbers.length ? numbers : Arrays.copyOf(numbers, length);
  }

  private static Object value(Row row, String column) {
    Set<String> columns = row.getFieldNames(true);
    if (columns == null) {
      throw refused(
          "rows with the names of columns expected, one without seen. Make the stream by"
              + " StreamTableEnvironment.toDataStream, or give it the type Types.ROW_NAMED");
    }
    if (!columns.contains(column)) {
      throw refused(
          "the column '" + column + "' expected, these seen: " + String.join(", ", columns));
    }
    Object value = row.getField(column);
    return value == null ? number(null, column) : value;
  }

  private static double number(Object value, String column) {
    if (value instanceof Number) {
      return ((Number) value).doubleValue();
    }
    if (value instanceof Boolean) {
      return (Boolean) value ? 1 : 0;
    }
    throw refused(
        "a number or BOOLEAN expected in the column '"
            + column
            + "', "
            + (value == null ? "NULL" : value.getClass().getSimpleName())
            + " seen. Cast it, fill it in or leave the row out, in the query");
  }

  private static RejoinException refused(String message) {
    return new RejoinException(RejoinException.Code.BAD_ARGUMENT, message);
  }
}
