package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Iterator;
import java.util.OptionalInt;
import java.util.stream.IntStream;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.junit.jupiter.api.Test;

class MatrixPagesTest {
  private static final VectorUDT UDT = new VectorUDT();

  private static InternalRow row(Object label, Object group, Vector features) {
    return new GenericInternalRow(
        new Object[] {label, group, features == null ? null : UDT.serialize(features)});
  }

  private static Iterator<byte[]> pages(boolean zerosAreMissing, InternalRow... rows) {
    MatrixColumns columns = new MatrixColumns(0, 2, true).group(OptionalInt.of(1));
    return new MatrixPages(columns, zerosAreMissing).pages(Arrays.asList(rows).iterator());
  }

  private static Vector sparse(int size, int column, double value) {
    return Vectors.sparse(size, new int[] {column}, new double[] {value});
  }

  /** As docs/pages.md describes it, byte by byte. */
  @Test
  void the_layout_of_a_dense_page_is_the_documented_one() {
    byte[] page =
        pages(false, row(1f, 7, Vectors.dense(0.5, Double.NaN)), row(0f, 8, sparse(2, 1, 3)))
            .next();
    ByteBuffer expected = ByteBuffer.allocate(24 + 4 * 8).order(ByteOrder.LITTLE_ENDIAN);
    expected.put("RJPG".getBytes(java.nio.charset.StandardCharsets.US_ASCII));
    expected.putShort((short) 1).put((byte) 1).put((byte) (4 + 8));
    expected.putInt(2).putInt(2).putLong(4);
    expected.putFloat(1).putFloat(0).putInt(7).putInt(8);
    expected.putFloat(0.5f).putFloat(Float.NaN).putFloat(0).putFloat(3);
    assertArrayEquals(expected.array(), page);
  }

  @Test
  void the_layout_of_a_sparse_page_is_the_documented_one() {
    byte[] page = pages(true, row(1f, 7, sparse(100, 5, 2)), row(0f, 7, sparse(100, 99, 3))).next();
    ByteBuffer expected = ByteBuffer.allocate(24 + 4 * 10).order(ByteOrder.LITTLE_ENDIAN);
    expected.put("RJPG".getBytes(java.nio.charset.StandardCharsets.US_ASCII));
    expected.putShort((short) 1).put((byte) 2).put((byte) (4 + 8));
    expected.putInt(2).putInt(100).putLong(2);
    expected.putFloat(1).putFloat(0).putInt(7).putInt(7);
    expected.putInt(1).putInt(2).putInt(5).putInt(99).putFloat(2).putFloat(3);
    assertArrayEquals(expected.array(), page);
  }

  @Test
  void where_zeros_are_missing_the_smaller_kind_is_taken_whatever_the_vectors_are() {
    Vector few = Vectors.dense(new double[] {0, 0, 0, 0, 0, 1, 0, 0});
    Vector many = Vectors.sparse(3, new int[] {0, 1}, new double[] {1, 2});
    assertEquals(Page.Kind.CSR_F32, Page.of(pages(true, row(1f, 0, few)).next()).kind());
    assertEquals(Page.Kind.DENSE_F32, Page.of(pages(false, row(1f, 0, few)).next()).kind());
    Page dense = Page.of(pages(true, row(1f, 0, many)).next());
    assertEquals(Page.Kind.DENSE_F32, dense.kind());
    ByteBuffer content = dense.content();
    content.getFloat();
    content.getInt();
    assertEquals(1, content.getFloat());
    assertEquals(2, content.getFloat());
    assertEquals(0, content.getFloat());
  }

  @Test
  void a_row_of_hashed_features_takes_room_for_those_that_are_there() {
    int hashed = 1 << 30;
    Page page = Page.of(pages(true, row(1f, 0, sparse(hashed, hashed - 1, 2))).next());
    assertEquals(hashed, page.columns());
    assertEquals(1, page.values());
  }

  @Test
  void a_sparse_vector_is_noted_in_its_page() {
    assertTrue(Page.of(pages(false, row(1f, 0, sparse(3, 1, 1))).next()).has(Page.FROM_SPARSE));
    assertFalse(
        Page.of(pages(false, row(1f, 0, Vectors.dense(1, 2))).next()).has(Page.FROM_SPARSE));
  }

  @Test
  void pages_are_of_about_a_million_values_and_have_all_rows_in_their_order() {
    int columns = 1000;
    int count = 2 * MatrixPages.PAGE_VALUES / columns + 5;
    InternalRow[] rows =
        IntStream.range(0, count)
            .mapToObj(i -> row((float) i, i, Vectors.dense(new double[columns])))
            .toArray(InternalRow[]::new);
    Iterator<byte[]> pages = pages(false, rows);
    int seen = 0;
    for (int number = 0; pages.hasNext(); number++) {
      Page page = Page.of(pages.next());
      assertTrue(page.values() <= MatrixPages.PAGE_VALUES);
      assertTrue(number == 2 || page.values() > MatrixPages.PAGE_VALUES - columns);
      for (int row = 0; row < page.rows(); row++) {
        assertEquals(seen++, page.content().getFloat(Page.HEAD_BYTES + 4 * row));
      }
    }
    assertEquals(count, seen);
  }

  private static String refused(InternalRow... rows) {
    RejoinException failure = assertThrows(RejoinException.class, () -> pages(false, rows).next());
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    return failure.text();
  }

  @Test
  void rows_that_lack_something_are_refused_by_its_name() {
    Vector two = Vectors.dense(1, 2);
    assertTrue(refused(row(1f, 0, two), row(null, 0, two)).contains("label"));
    assertTrue(refused(row(1f, null, two)).contains("group"));
    assertTrue(refused(row(1f, 0, null)).contains("features"));
    String lengths = refused(row(1f, 0, two), row(1f, 0, Vectors.dense(1, 2, 3)));
    assertTrue(lengths.contains("3 features behind rows of 2"), lengths);
  }
}
