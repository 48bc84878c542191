package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.OptionalInt;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class PageRowsTest {
  private static final int ROWS = 30;
  private static final int WIDTH = 5;
  private static final StructType TEXTS = new StructType().add("text", DataTypes.StringType);

  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[1]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  /** Rows of which each has the last numbers of the same sequence; {@code zeros} of them are 0. */
  private static List<InternalRow> rows(double zeros) {
    Random random = new Random(3);
    return IntStream.range(0, ROWS)
        .mapToObj(
            row -> {
              float[] features = new float[WIDTH];
              for (int i = 0; i < WIDTH; i++) {
                features[i] = random.nextDouble() < zeros ? 0 : random.nextFloat();
              }
              float label = row;
              return new GenericInternalRow(
                  new Object[] {label, 2f, new GenericArrayData(features), row / 4, label / 2});
            })
        .collect(Collectors.toList());
  }

  private static byte[] page(MatrixColumns columns, List<InternalRow> rows) {
    Iterator<byte[]> pages = new MatrixPages(columns, true).pages(rows.iterator());
    byte[] page = pages.next();
    assertTrue(!pages.hasNext());
    return page;
  }

  /** A part is the page that would have been made of its rows alone, in the same form. */
  private static void partsArePages(MatrixColumns columns, Page.Kind kind, double zeros) {
    List<InternalRow> rows = rows(zeros);
    byte[] whole = page(columns, rows);
    assertEquals(kind, Page.of(whole).kind());
    int compared = 0;
    for (int first = 0; first < ROWS; first++) {
      for (int end = first + 1; end <= ROWS; end++) {
        byte[] wanted = page(columns, rows.subList(first, end));
        if (Page.of(wanted).kind() == kind) {
          assertArrayEquals(wanted, PageRows.of(whole, first, end), first + " to " + end);
          compared++;
        }
      }
    }
    assertTrue(compared > ROWS * ROWS / 4, "only " + compared + " parts have that form alone");
  }

  private static MatrixColumns all() {
    return new MatrixColumns(0, 2, false)
        .weight(OptionalInt.of(1))
        .group(OptionalInt.of(3))
        .margin(OptionalInt.of(4));
  }

  @Test
  void a_part_of_a_matrix_is_the_page_of_these_rows() {
    partsArePages(new MatrixColumns(0, 2, false), Page.Kind.DENSE_F32, 0.1);
    partsArePages(all(), Page.Kind.DENSE_F32, 0.1);
    partsArePages(new MatrixColumns(0, 2, false), Page.Kind.CSR_F32, 0.8);
    partsArePages(all(), Page.Kind.CSR_F32, 0.8);
  }

  private static List<String> texts(byte[] page) {
    List<String> texts = new ArrayList<>();
    SparkRowPages.rows(List.of(page).iterator(), 1)
        .forEachRemaining(row -> texts.add(row.getString(0)));
    return texts;
  }

  @Test
  void a_part_of_rows_of_any_kind_has_these_rows() {
    List<String> all =
        IntStream.range(0, ROWS).mapToObj(i -> "x".repeat(i)).collect(Collectors.toList());
    Iterator<InternalRow> rows =
        all.stream()
            .<InternalRow>map(
                text -> new GenericInternalRow(new Object[] {UTF8String.fromString(text)}))
            .iterator();
    byte[] whole = new SparkRowPages(TEXTS).pages(rows).next();
    for (int first = 0; first < ROWS; first++) {
      for (int end = first + 1; end <= ROWS; end++) {
        byte[] part = PageRows.of(whole, first, end);
        assertEquals(all.subList(first, end), texts(part));
        assertEquals(end - first, Page.of(part).rows());
      }
    }
  }

  @Test
  void all_rows_are_the_page_itself_and_no_rows_are_none() {
    byte[] whole = page(all(), rows(0));
    assertSame(whole, PageRows.of(whole, 0, ROWS));
    assertThrows(IllegalArgumentException.class, () -> PageRows.of(whole, 2, 2));
    assertThrows(IllegalArgumentException.class, () -> PageRows.of(whole, 0, ROWS + 1));
  }
}
