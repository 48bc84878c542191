package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;
import io.rejoin.flink.RowNumbers;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.types.Row;

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
 * an earlier one (of {@code toChangelogStream}) end the job with a {@link RejoinException} of
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

  /**
   * The row's numbers.
   *
   * @throws SuppressRestartsException for a row that has none: it would be the same when its
   *     subtask is restarted. The cause says what was expected
   */
  @Override
  public LabeledRow map(Row row) {
    try {
      RowNumbers.requireInsert(row);
      return new LabeledRow(
          RowNumbers.numbers(row, features, false),
          label == null ? Double.NaN : RowNumbers.number(row, label),
          weight == null ? 1 : RowNumbers.number(row, weight));
    } catch (RejoinException e) {
      throw new SuppressRestartsException(e);
    }
  }
}
