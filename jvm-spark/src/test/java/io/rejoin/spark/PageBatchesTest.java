package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.OptionalInt;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.junit.jupiter.api.Test;

class PageBatchesTest {
  /** A page of one row for each pair of a group and its weight. */
  private static byte[] page(int... groupsAndWeights) {
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < groupsAndWeights.length; i += 2) {
      Object features = new GenericArrayData(new float[] {i});
      float weight = groupsAndWeights[i + 1];
      rows.add(
          new GenericInternalRow(new Object[] {0f, weight, groupsAndWeights[i], features, 0.5f}));
    }
    MatrixColumns columns =
        new MatrixColumns(0, 3, false)
            .weight(OptionalInt.of(1))
            .group(OptionalInt.of(2))
            .margin(OptionalInt.of(4));
    return new MatrixPages(columns, false).pages(rows.iterator()).next();
  }

  private static PageBatches read(byte[]... pages) {
    PageBatches batches = new PageBatches(List.of(pages).iterator());
    batches.forEachRemaining(batch -> assertTrue(batch.rows() > 0));
    return batches;
  }

  @Test
  void a_group_may_go_on_in_the_next_page_and_come_again_as_another_one() {
    PageBatches read = read(page(7, 2, 7, 2), page(7, 2, 8, 3), page(7, 1));
    assertArrayEquals(new int[] {3, 1, 1}, read.groupSizes());
    assertArrayEquals(new float[] {2, 3, 1}, read.groupWeights());
    assertArrayEquals(new float[] {.5f, .5f, .5f, .5f, .5f}, read.margins());
  }

  @Test
  void two_weights_in_a_group_are_refused_as_by_the_stock_estimator() {
    RejoinException failure =
        assertThrows(RejoinException.class, () -> read(page(7, 2), page(7, 3)));
    assertEquals(RejoinException.Code.TRAINING_FAILED, failure.code());
    assertTrue(failure.text().contains("group 7 has the weights 2.0 and 3.0"), failure.text());
  }

  @Test
  void pages_of_other_rows_are_refused() {
    byte[] page = Page.begin(Page.Kind.SPARK_ROWS, 0, 0, 1, 0, 0).array();
    assertThrows(IllegalArgumentException.class, () -> read(page));
    assertFalse(read().hasGroups());
  }

  @Test
  void a_page_is_read_when_its_turn_comes_and_kept_no_longer() {
    List<WeakReference<byte[]>> given = new ArrayList<>();
    Iterator<byte[]> pages =
        new Iterator<>() {
          @Override
          public boolean hasNext() {
            return given.size() < 5;
          }

          @Override
          public byte[] next() {
            byte[] page = page(7, 2);
            given.add(new WeakReference<>(page));
            return page;
          }
        };
    PageBatches batches = new PageBatches(pages);
    for (int taken = 1; taken <= 4; taken++) {
      batches.next();
      assertEquals(taken, given.size());
      WeakReference<byte[]> page = given.get(taken - 1);
      assertTimeoutPreemptively(
          Duration.ofSeconds(60),
          () -> {
            while (page.get() != null) {
              System.gc();
            }
          });
    }
    assertTrue(batches.hasNext());
  }
}
