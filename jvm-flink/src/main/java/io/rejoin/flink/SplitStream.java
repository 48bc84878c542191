package io.rejoin.flink;

import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/**
 * Rows with the split that each comes from, and its number there. What is done to the rows on their
 * way to {@link Rejoin#train(SplitStream, TrainerFunction)} is done row by row, so that they keep
 * their numbers. Functions have to be deterministic.
 *
 * @param <T> a row
 */
public final class SplitStream<T> {
  private final SingleOutputStreamOperator<Row> records;
  private final TypeInformation<T> type;

  SplitStream(SingleOutputStreamOperator<Row> records, TypeInformation<T> type) {
    this.records = records;
    this.type = type;
  }

  /**
   * Makes another row of each. A rich function is opened and closed as by Flink.
   *
   * @param function never gives null
   * @throws org.apache.flink.api.common.functions.InvalidTypesException when its type isn't to be
   *     seen, as with many lambdas; name it then
   */
  public <R> SplitStream<R> map(MapFunction<T, R> function) {
    return map(function, TypeExtractor.getMapReturnTypes(function, type));
  }

  /** The same, of rows of this type. */
  public <R> SplitStream<R> map(MapFunction<T, R> function, TypeInformation<R> rows) {
    return new SplitStream<>(
        then("map", new NumberedFunction.Mapping<>(environment().clean(function)), rows), rows);
  }

  /**
   * Leaves rows out. Their numbers stay: a trainer counts them as trained and never sees them.
   *
   * @param function true for rows that stay
   */
  public SplitStream<T> filter(FilterFunction<T> function) {
    return new SplitStream<>(
        then("filter", new NumberedFunction.Filtering<>(environment().clean(function)), type),
        type);
  }

  /** Names the operator that was added last in savepoints, as Flink's {@code uid} does. */
  public SplitStream<T> uid(String uid) {
    records.uid(uid);
    return this;
  }

  /**
   * The slot sharing group of the operator that was added last and of those that follow, as Flink's
   * {@code slotSharingGroup}.
   */
  public SplitStream<T> slotSharingGroup(String group) {
    records.slotSharingGroup(group);
    return this;
  }

  /** What the rows are. */
  public TypeInformation<T> type() {
    return type;
  }

  SingleOutputStreamOperator<Row> records() {
    return records;
  }

  private SingleOutputStreamOperator<Row> then(
      String name, MapFunction<Row, Row> function, TypeInformation<?> rows) {
    return records
        .map(function)
        .returns(NumberedRow.type(rows))
        .name(name)
        .setParallelism(records.getParallelism());
  }

  private StreamExecutionEnvironment environment() {
    return records.getExecutionEnvironment();
  }
}
