package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/**
 * XGBoost on a bounded stream, by an unmodified XGBoost4J. Each subtask is a rank; when all inputs
 * have ended, all train one model together. When a TaskManager dies, Flink restarts the subtasks
 * that were on it; they read their rows again, join where the others are, and these never restart.
 *
 * <pre>{@code
 * DataStream<XgboostModel> model =
 *     new RejoinXGBoost(Map.of("objective", "binary:logistic"), 100)
 *         .features("age", "income")
 *         .label("clicked")
 *         .train(tables.toDataStream(table));
 * }</pre>
 *
 * <p>Columns are those of {@link Row}s with names, as {@code StreamTableEnvironment.toDataStream}
 * makes them of a Table. Features, label and weight are numbers of whatever type or BOOLEANs; a
 * column of features may be one of arrays, each element of which is a feature. A NULL is a missing
 * feature.
 *
 * <p>Rows are trained on in the order in which they come, if all edges from the sources on are
 * forward ones. Where an exchange lies above, rows come in no fixed order; they are sorted by their
 * content then, unless {@link #orderBy} says by what.
 */
public final class RejoinXGBoost {
  private final XgboostSpec spec;

  /**
   * A training of so many rounds.
   *
   * @param parameters XGBoost's, by its own names, with one metric at most in {@code eval_metric};
   *     {@code nthread} is 1 unless it is given, and {@code seed_per_iteration} is always true,
   *     without which a restarted rank would draw other samples
   */
  public RejoinXGBoost(Map<String, ?> parameters, int rounds) {
    spec = new XgboostSpec(parameters, rounds);
  }

  /** The columns of features, in this order: finite as FLOATs, or NaN or NULL for none. */
  public RejoinXGBoost features(String... columns) {
    spec.columns.features = columns.clone();
    return this;
  }

  /** The column of what is learned: finite numbers. */
  public RejoinXGBoost label(String column) {
    spec.columns.label = column;
    return this;
  }

  /** The column of weights, finite and of at least 0; without it all rows count the same. */
  public RejoinXGBoost weight(String column) {
    spec.columns.weight = column;
    return this;
  }

  /**
   * The column of query groups, for ranking: a whole number. All rows of a group have to come to
   * one subtask, and have one weight. A rank's rows are sorted by it.
   */
  public RejoinXGBoost group(String column) {
    spec.columns.group = column;
    return this;
  }

  /**
   * The BOOLEAN column that is true for rows that are evaluated and not trained on. Each rank needs
   * some.
   */
  public RejoinXGBoost evaluation(String column) {
    spec.columns.evaluation = column;
    return this;
  }

  /**
   * Stops when the metric of the evaluation rows (or, without any, of the training rows) hasn't
   * improved for so many rounds; 0 never does.
   */
  public RejoinXGBoost earlyStopping(int rounds) {
    spec.earlyStoppingRounds = rounds;
    return this;
  }

  /** The value of a feature that means that there is none; NaN always does. */
  public RejoinXGBoost missing(float value) {
    spec.missing = value;
    return this;
  }

  /**
   * The column that orders a rank's rows, within their query groups if there are any: a whole
   * number. Then the order in which they come doesn't matter.
   */
  public RejoinXGBoost orderBy(String column) {
    spec.columns.order = column;
    return this;
  }

  /** {@link #train(DataStream, Configuration)} with the environment's settings. */
  public SingleOutputStreamOperator<XgboostModel> train(DataStream<Row> rows) {
    return train(rows, new Configuration());
  }

  /**
   * Trains on a bounded stream. There are as many ranks as the stream has parallel subtasks.
   *
   * @param rows of which each subtask gets the same whenever they are read again
   * @param settings {@code rejoin.*} (docs/flink.md), before those of the environment
   * @return the model, once, from rank 0
   * @throws RejoinException BAD_ARGUMENT for a stream without end, columns that aren't there,
   *     parameters, settings, edges or schedulers that can't work, with what to do
   */
  public SingleOutputStreamOperator<XgboostModel> train(
      DataStream<Row> rows, Configuration settings) {
    spec.check(rows.getParallelism());
    checkColumns(rows.getType());
    StreamExecutionEnvironment environment = rows.getExecutionEnvironment();
    if (!JobShape.of(List.of(rows.getTransformation()), environment.getConfiguration())
        .isBounded()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "a source of the stream has no end, and XGBoost trains when it has all rows: give the"
              + " source bounds, or train with Rejoin.train");
    }
    Map<String, String> all = new HashMap<>(environment.getConfiguration().toMap());
    all.putAll(settings.toMap());
    SettingValues values = FlinkSettings.ofXgboost(all);
    XgboostOperatorFactory factory = new XgboostOperatorFactory(spec.copy(), values);
    // Not the stream itself: one by keys would make Flink keep state and sort by key.
    SingleOutputStreamOperator<XgboostModel> model =
        new DataStream<>(environment, rows.getTransformation())
            .transform("train XGBoost", TypeInformation.of(XgboostModel.class), factory)
            .setParallelism(rows.getParallelism());
    JobSlots.place(model, values);
    factory.whenTheGraphIsMade(
        () -> {
          JobShape.of(environment.getTransformations(), environment.getConfiguration())
              .check(model.getTransformation(), values);
          factory.inOrder(
              JobShape.of(List.of(model.getTransformation()), environment.getConfiguration())
                  .keepsOrder());
        });
    return model;
  }

  private void checkColumns(TypeInformation<Row> type) {
    if (!(type instanceof RowTypeInfo)) {
      // A Table's type is known only to the planner; a missing column is told by the first row.
      return;
    }
    List<String> seen = Arrays.asList(((RowTypeInfo) type).getFieldNames());
    for (String column : spec.columns.all()) {
      if (!seen.contains(column)) {
        throw new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "the column '" + column + "' expected, these seen: " + String.join(", ", seen));
      }
    }
  }
}
