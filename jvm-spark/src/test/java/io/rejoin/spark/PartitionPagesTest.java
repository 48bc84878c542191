package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class PartitionPagesTest {
  /** A page of rows that have one byte each. */
  private static byte[] page(int flags, int... rows) {
    var page = Page.begin(Page.Kind.DENSE_F32, flags, rows.length, 1, rows.length, rows.length);
    for (int row : rows) {
      page.put((byte) row);
    }
    return page.array();
  }

  private static PartitionPages of(byte[]... pages) {
    return PartitionPages.of(1, Arrays.asList(pages).iterator());
  }

  @Test
  void it_counts_rows_and_bytes_of_all_pages() {
    PartitionPages all = of(page(0, 1, 2), page(0, 3));
    assertEquals(2, all.count());
    assertEquals(3, all.rows());
    assertEquals(2 * Page.HEAD_BYTES + 3, all.bytes());
  }

  @Test
  void a_change_of_any_row_in_any_page_is_seen() {
    PartitionPages right = of(page(0, 1, 2), page(0, 3, 4));
    assertEquals(right, of(page(0, 1, 2), page(0, 3, 4)));
    assertNotEquals(right, of(page(0, 9, 2), page(0, 3, 4)));
    assertNotEquals(right, of(page(0, 1, 9), page(0, 3, 4)));
    assertNotEquals(right, of(page(0, 1, 2), page(0, 9, 4)));
    assertNotEquals(right, of(page(0, 1, 2), page(0, 3, 9)));
    assertNotEquals(right, of(page(0, 1, 2), page(0, 4, 3)), "another order");
    assertNotEquals(right, of(page(0, 3, 4), page(0, 1, 2)), "another order of pages");
    assertNotEquals(right, of(page(0, 1, 2), page(0, 3)), "a row less");
    assertNotEquals(right, of(page(0, 1, 2)), "a page less");
  }

  @Test
  void a_change_far_behind_a_page_s_head_is_seen() {
    int[] rows = new int[100_000];
    PartitionPages right = of(page(0, rows));
    rows[rows.length - 1] = 1;
    assertNotEquals(right, of(page(0, rows)));
  }

  @Test
  void one_sparse_vector_in_any_page_is_known() {
    assertFalse(of(page(0, 1), page(Page.GROUPS, 2)).fromSparse());
    assertTrue(of(page(0, 1), page(Page.FROM_SPARSE, 2), page(0, 3)).fromSparse());
  }

  @Test
  void bytes_that_are_no_page_are_refused() {
    assertThrows(IllegalArgumentException.class, () -> of(new byte[0]));
    for (int at : new int[] {0, 4, 6}) {
      byte[] damaged = page(0, 1, 2);
      damaged[at] ^= 64;
      assertThrows(IllegalArgumentException.class, () -> of(damaged), "byte " + at);
    }
  }
}
