package io.rejoin.flink.trainers;

import static io.rejoin.flink.trainers.References.assertFails;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException.Code;
import io.rejoin.flink.Rejoin;
import io.rejoin.flink.TrainedModel;
import java.util.List;
import java.util.Set;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class FromTableTest {
  private static final FromTable COLUMNS = new FromTable("a", "b");

  private static Row row(Object a, Object b) {
    Row row = Row.withNames();
    row.setField("a", a);
    row.setField("b", b);
    return row;
  }

  private static void refused(FromTable columns, Row row, String... said) {
    // It would be the same when the subtask is restarted.
    Throwable thrown = assertThrows(SuppressRestartsException.class, () -> columns.map(row));
    assertFails(
        Code.BAD_ARGUMENT,
        () -> {
          throw thrown.getCause();
        },
        said);
  }

  @Test
  void a_table_becomes_labeled_rows_whatever_the_types_of_its_numbers() throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    String query =
        "SELECT d, i, c, f, ts, xs, ys FROM (VALUES"
            + " (CAST(0.5 AS DOUBLE), 7, TRUE, CAST(2.25 AS DECIMAL(5, 2)), 'one',"
            + "  ARRAY[CAST(1 AS DOUBLE), CAST(2 AS DOUBLE)], ARRAY[3, 4, 5]),"
            + " (CAST(-1.5 AS DOUBLE), 8, FALSE, CAST(0 AS DECIMAL(5, 2)), 'two',"
            + "  ARRAY[CAST(6 AS DOUBLE), CAST(7 AS DOUBLE)], ARRAY[8, 9, 10])"
            + ") AS t(d, i, c, f, ts, xs, ys)";
    DataStream<LabeledRow> rows =
        tables
            .toDataStream(tables.sqlQuery(query))
            .map(new FromTable("i", "xs", "d", "ys").label("c").weight("f"));
    assertInstanceOf(PojoTypeInfo.class, rows.getType());
    // Flink makes a union of the values, which has no order.
    assertEquals(
        Set.of(
            new LabeledRow(new double[] {7, 1, 2, 0.5, 3, 4, 5}, 1, 2.25),
            new LabeledRow(new double[] {8, 6, 7, -1.5, 8, 9, 10}, 0, 0)),
        Set.copyOf(rows.executeAndCollect(3)));
  }

  @Test
  void a_trainer_of_this_package_trains_on_a_table_in_a_job_of_flinks() throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    Table table = tables.sqlQuery("SELECT x, 2 AS w FROM (VALUES 1, 2, 3, 6) AS t(x)");
    OnlineStandardScaler trainer = new OnlineStandardScaler(1);
    Configuration settings = new Configuration();
    settings.setString("rejoin.tracker.host", "127.0.0.1");
    settings.setString("rejoin.batch.rows", "3");
    // Flink makes a union of the values.
    settings.setString("rejoin.allow-region-restart", "true");
    List<TrainedModel> models =
        Rejoin.train(
                tables.toDataStream(table).map(new FromTable("x").weight("w")), trainer, settings)
            .executeAndCollect(100);
    TrainedModel last = models.get(models.size() - 1);
    assertTrue(last.isLast());
    StandardScalerModel model = last.read(trainer);
    assertEquals(8, model.weight());
    assertArrayEquals(new double[] {3}, model.mean(), 1e-15);
    assertArrayEquals(new double[] {3.5}, model.variance(), 1e-15);
  }

  @Test
  void any_stream_of_rows_with_names_serves() throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
    DataStream<Row> rows =
        environment
            .fromData(List.of(1L))
            .map(number -> Row.of(2f, number, "text"))
            .returns(
                Types.ROW_NAMED(
                    new String[] {"b", "a", "c"}, Types.FLOAT, Types.LONG, Types.STRING));
    LabeledRow expected = new LabeledRow(new double[] {1, 2});
    assertEquals(List.of(expected), rows.map(COLUMNS).executeAndCollect(2));
  }

  @Test
  void without_columns_for_them_there_is_no_label_and_the_weight_is_one() {
    assertEquals(new LabeledRow(new double[] {3, 4}, Double.NaN, 1), COLUMNS.map(row(3, 4)));
    assertEquals(
        new LabeledRow(new double[] {3}, 4, 1), new FromTable("a").label("b").map(row(3, 4)));
    assertEquals(
        new LabeledRow(new double[] {3}, Double.NaN, 4),
        new FromTable("a").weight("b").map(row(3, 4)));
    assertEquals(new LabeledRow(new double[] {4}), COLUMNS.map(row(new float[0], new int[] {4})));
  }

  @Test
  void a_column_that_cannot_be_used_is_named_with_what_was_seen() {
    refused(COLUMNS, row(1, null), "column 'b'", "NULL seen");
    refused(COLUMNS, row(1, "text"), "column 'b'", "String seen");
    refused(COLUMNS, row(new Double[] {1.0, null}, 1), "column 'a'", "NULL seen");
    refused(COLUMNS.label("c"), row(1, 2), "column 'c' expected", "a, b");
    refused(COLUMNS.weight("a"), row(new double[2], 2), "column 'a'", "double[] seen");
    refused(COLUMNS, Row.of(1, 2), "names of columns", "toDataStream");
    assertFails(Code.BAD_ARGUMENT, FromTable::new, "features", "none was given");
  }

  @Test
  void a_row_that_takes_an_earlier_one_back_is_refused() {
    for (RowKind kind : List.of(RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)) {
      Row row = row(1, 2);
      row.setKind(kind);
      refused(COLUMNS, row, kind.toString(), "can't be taken back");
    }
  }
}
