package io.rejoin.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;

/** Some rows of a page as a page of their own. */
final class PageRows {
  private PageRows() {}

  /**
   * The rows from {@code first} (0-based) up to {@code end} (exclusive), at least one. All of them
   * are the page itself.
   */
  static byte[] of(byte[] page, int first, int end) {
    Page whole = Page.of(page);
    if (first < 0 || first >= end || end > whole.rows()) {
      throw new IllegalArgumentException(
          "rows " + first + " to " + end + " of a page of " + whole.rows() + " rows");
    }
    if (first == 0 && end == whole.rows()) {
      return page;
    }
    return whole.kind() == Page.Kind.SPARK_ROWS
        ? sparkRows(whole, first, end)
        : matrix(whole, first, end);
  }

  private static byte[] sparkRows(Page whole, int first, int end) {
    BlockCompression compression = BlockCompression.ofApplication();
    ByteBuffer rows = compression.decompress(whole.content()).order(ByteOrder.nativeOrder());
    int from = 0;
    int at = 0;
    for (int row = 0; row < end; row++) {
      if (row == first) {
        from = at;
      }
      at += Long.BYTES + (int) rows.getLong(at);
    }
    ByteBuffer content = compression.compress(rows.array(), from, at - from);
    return Page.begin(
            whole.kind(),
            whole.flags(),
            end - first,
            whole.columns(),
            at - from,
            content.remaining())
        .put(content)
        .array();
  }

  /** Everything in such a page is a number of 4 bytes. */
  private static byte[] matrix(Page whole, int first, int end) {
    IntBuffer all = whole.content().asIntBuffer();
    int count = whole.rows();
    int rows = end - first;
    int perRow = 1 + Integer.bitCount(whole.flags() & (Page.WEIGHTS | Page.MARGINS | Page.GROUPS));
    boolean isSparse = whole.kind() == Page.Kind.CSR_F32;
    int ends = perRow * count;
    int begin = isSparse ? (first == 0 ? 0 : all.get(ends + first - 1)) : first * whole.columns();
    int values = (isSparse ? all.get(ends + end - 1) : end * whole.columns()) - begin;
    long numbers = (long) perRow * rows + (isSparse ? rows + 2L * values : values);
    ByteBuffer page =
        Page.begin(
            whole.kind(), whole.flags(), rows, whole.columns(), values, numbers * Integer.BYTES);
    for (int array = 0; array < perRow; array++) {
      put(page, all, array * count + first, rows);
    }
    int behind = ends;
    if (isSparse) {
      for (int row = first; row < end; row++) {
        page.putInt(all.get(ends + row) - begin);
      }
      put(page, all, ends + count + begin, values);
      behind += count + Math.toIntExact(whole.values());
    }
    put(page, all, behind + begin, values);
    return page.array();
  }

  private static void put(ByteBuffer page, IntBuffer all, int from, int count) {
    IntBuffer part = all.duplicate();
    part.position(from).limit(from + count);
    page.asIntBuffer().put(part);
    page.position(page.position() + count * Integer.BYTES);
  }
}
