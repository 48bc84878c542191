package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import io.rejoin.xgboost.Matrices;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;

class RankRowsTest {
  /** More than fit into one block of bytes. */
  private static final int MANY = 100_000;

  private static XgboostColumns columns(String group, String order, String evaluation) {
    XgboostColumns columns = new XgboostColumns();
    columns.features = new String[] {"x", "y"};
    columns.label = "l";
    columns.group = group;
    columns.order = order;
    columns.evaluation = evaluation;
    return columns;
  }

  private static Row row(int number) {
    Row row = Row.withNames();
    row.setField("x", number);
    row.setField("y", number % 7 == 0 ? null : (double) number / 3);
    row.setField("l", number % 2 == 0);
    row.setField("number", number);
    row.setField("query", (number * 31) % 5 - 2);
    row.setField("test", number % 4 == 3);
    return row;
  }

  private static RankRows rows(XgboostColumns columns, List<Integer> numbers) {
    RankRows rows = new RankRows(columns, Float.NaN, 2);
    numbers.forEach(number -> rows.add(row(number)));
    return rows;
  }

  private static List<Integer> numbers(int count) {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      numbers.add(i);
    }
    return numbers;
  }

  private static List<Integer> shuffled(int count) {
    List<Integer> numbers = numbers(count);
    Collections.shuffle(numbers, new Random(5));
    return numbers;
  }

  private static RowFingerprint fingerprint(RankRows rows, boolean inOrder) {
    return rows.arrange(0, inOrder);
  }

  @Test
  void rows_that_come_in_order_are_told_from_the_same_ones_in_another_order() {
    XgboostColumns columns = columns(null, null, null);
    RowFingerprint once = fingerprint(rows(columns, numbers(MANY)), true);
    assertEquals(MANY, once.rows());
    assertEquals(once, fingerprint(rows(columns, numbers(MANY)), true));
    assertNotEquals(once, fingerprint(rows(columns, shuffled(MANY)), true));
    assertNotEquals(once, fingerprint(rows(columns, numbers(MANY - 1)), true));
  }

  @Test
  void rows_that_come_in_no_order_are_sorted_by_content_and_still_told_from_others() {
    XgboostColumns columns = columns(null, null, "test");
    RowFingerprint once = fingerprint(rows(columns, numbers(MANY)), false);
    assertEquals(once, fingerprint(rows(columns, shuffled(MANY)), false));
    List<Integer> other = shuffled(MANY);
    other.set(17, MANY + 1);
    assertNotEquals(once, fingerprint(rows(columns, other), false));
  }

  @Test
  void rows_are_ordered_within_their_query_groups_by_numbers_of_both_signs() throws Exception {
    RankRows rows = rows(columns("query", "number", null), shuffled(1000));
    rows.arrange(0, true);
    List<Integer> expected = numbers(1000);
    expected.sort(
        (one, other) -> {
          int queries = Integer.compare((one * 31) % 5, (other * 31) % 5);
          return queries != 0 ? queries : Integer.compare(one, other);
        });
    float[] labels = new float[1000];
    for (int i = 0; i < labels.length; i++) {
      labels[i] = expected.get(i) % 2 == 0 ? 1 : 0;
    }
    try (Matrices matrices = rows.matrices()) {
      assertArrayEquals(labels, matrices.byName().get("train").getLabel());
    }
  }

  @Test
  void rows_of_a_checkpoint_are_those_that_had_come_whatever_comes_later() throws IOException {
    XgboostColumns columns = columns(null, null, "test");
    RankRows rows = rows(columns, numbers(MANY));
    List<RowBlock> kept = rows.blocks();
    rows.add(row(MANY));
    RankRows again = new RankRows(columns, Float.NaN, 2);
    for (RowBlock block : kept) {
      DataOutputSerializer out = new DataOutputSerializer(64);
      block.write(out);
      DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
      again.restore(RowBlock.read(in), "train XGBoost");
    }
    assertEquals(fingerprint(rows(columns, numbers(MANY)), true), fingerprint(again, true));
  }

  @Test
  void a_checkpoint_shares_full_blocks_with_the_rank() {
    RankRows rows = rows(columns(null, null, null), numbers(MANY));
    List<RowBlock> kept = rows.blocks();
    assertTrue(kept.size() > 1);
    rows.add(row(MANY));
    assertSame(kept.get(0).bytes, rows.blocks().get(0).bytes);
  }

  private static RejoinException refused(XgboostColumns columns, int world, RowBlock block) {
    RankRows rows = new RankRows(columns, Float.NaN, world);
    return assertThrows(RejoinException.class, () -> rows.restore(block, "train XGBoost"));
  }

  @Test
  void rows_of_other_ranks_are_taken_but_query_groups_are_not_divided() {
    RowBlock plain = rows(columns(null, null, null), numbers(9)).blocks().get(0);
    RankRows more = new RankRows(columns(null, null, null), Float.NaN, 3);
    more.restore(plain, "train XGBoost");
    assertEquals(9, more.arrange(0, true).rows());
    RowBlock grouped = rows(columns("query", null, null), numbers(9)).blocks().get(0);
    String text = refused(columns("query", null, null), 3, grouped).text();
    assertTrue(text.contains("written by 2 subtasks") && text.contains("by 3"), text);
    text = refused(columns(null, null, null), 2, grouped).text();
    assertTrue(text.contains("it had 1, and now there are 0"), text);
  }

  @Test
  void an_array_of_another_length_is_refused_with_both_lengths() {
    XgboostColumns columns = columns(null, null, null);
    RankRows rows = rows(columns, numbers(3));
    Row row = row(3);
    row.setField("y", new double[] {1, 2});
    String text = assertThrows(RejoinException.class, () -> rows.add(row)).text();
    assertTrue(text.contains("has 3 features") && text.contains("before it have 2"), text);
  }

  private static String refused(String column, Object value) {
    XgboostColumns columns = columns(null, null, null);
    columns.weight = "w";
    RankRows rows = new RankRows(columns, Float.POSITIVE_INFINITY, 2);
    for (int number = 0; number < 3; number++) {
      Row good = row(number);
      good.setField("w", number);
      rows.add(good);
    }
    Row row = row(3);
    row.setField("w", 1);
    row.setField(column, value);
    RejoinException error = assertThrows(RejoinException.class, () -> rows.add(row));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, error.code());
    assertTrue(error.text().contains("in row 3 (from 0) of this rank"), error.text());
    return error.text();
  }

  @Test
  void numbers_that_xgboost_cannot_train_on_are_refused_with_column_and_row() {
    for (Object label : new Object[] {Double.NaN, 1e300, Float.NEGATIVE_INFINITY}) {
      assertTrue(refused("l", label).contains("the column 'l' is "), "a label of " + label);
    }
    for (Object weight : new Object[] {-1, Double.NaN, Double.POSITIVE_INFINITY, 1e39}) {
      String text = refused("w", weight);
      assertTrue(text.contains("the column 'w' is ") && text.contains("at least 0"), text);
    }
    for (Object feature : new Object[] {-1e300, Double.NEGATIVE_INFINITY, new float[] {-1f / 0}}) {
      String text = refused("y", feature);
      assertTrue(text.contains("the column 'y' is -") && text.contains("FLOAT"), text);
    }
  }

  @Test
  void an_infinite_feature_is_taken_where_it_says_that_there_is_none() throws Exception {
    RankRows rows = new RankRows(columns(null, null, null), Float.POSITIVE_INFINITY, 2);
    Row row = row(1);
    row.setField("y", 1e300);
    rows.add(row);
    rows.arrange(0, true);
    try (Matrices matrices = rows.matrices()) {
      assertEquals(1, matrices.byName().get("train").rowNum());
    }
  }
}
