package io.rejoin.flink;

import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.Function;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.types.Row;

/** A user's function on rows that have numbers. */
abstract class NumberedFunction<F extends Function> extends RichMapFunction<Row, Row> {
  private static final long serialVersionUID = 1L;

  final F function;

  NumberedFunction(F function) {
    this.function = function;
  }

  @Override
  public void open(OpenContext context) throws Exception {
    if (function instanceof RichFunction) {
      ((RichFunction) function).setRuntimeContext(getRuntimeContext());
      ((RichFunction) function).open(context);
    }
  }

  @Override
  public void close() throws Exception {
    if (function instanceof RichFunction) {
      ((RichFunction) function).close();
    }
  }

  @Override
  public Row map(Row record) throws Exception {
    return NumberedRow.row(record) == null ? record : apply(record);
  }

  /** What comes of a record that has a row. */
  abstract Row apply(Row record) throws Exception;

  /** Another row of each. */
  static final class Mapping<T, R> extends NumberedFunction<MapFunction<T, R>> {
    private static final long serialVersionUID = 1L;

    Mapping(MapFunction<T, R> function) {
      super(function);
    }

    @Override
    Row apply(Row record) throws Exception {
      R row = function.map(NumberedRow.row(record));
      if (row == null) {
        throw new NullPointerException(
            "the function of SplitStream.map has given null for row "
                + NumberedRow.number(record)
                + " of "
                + NumberedRow.split(record)
                + "; SplitStream.filter leaves rows out");
      }
      return NumberedRow.with(record, row);
    }
  }

  /** Some without their rows. */
  static final class Filtering<T> extends NumberedFunction<FilterFunction<T>> {
    private static final long serialVersionUID = 1L;

    Filtering(FilterFunction<T> function) {
      super(function);
    }

    @Override
    Row apply(Row record) throws Exception {
      return function.filter(NumberedRow.row(record)) ? record : NumberedRow.with(record, null);
    }
  }
}
