package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.rejoin.RowFingerprint;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class PartitionRowsTest {
  /** A block of rows that have one byte each. */
  private static byte[] block(int... rows) {
    ByteBuffer block = ByteBuffer.allocate(rows.length * 9).order(ByteOrder.nativeOrder());
    for (int row : rows) {
      block.putLong(1).put((byte) row);
    }
    return block.array();
  }

  private static RowFingerprint of(byte[]... blocks) {
    return PartitionRows.of(1, Arrays.asList(blocks).iterator(), new RowBlocks.Shape(0, -1))
        .fingerprint();
  }

  @Test
  void the_same_rows_have_the_same_one_however_they_are_cut_into_blocks() {
    assertEquals(of(block(1, 2), block(3)), of(block(1), block(2, 3)));
    assertEquals(3, of(block(1, 2), block(3)).rows());
    assertEquals(27, of(block(1, 2), block(3)).bytes());
  }

  @Test
  void a_change_of_any_row_in_any_block_is_seen() {
    RowFingerprint right = of(block(1, 2), block(3, 4));
    assertNotEquals(right, of(block(9, 2), block(3, 4)));
    assertNotEquals(right, of(block(1, 9), block(3, 4)));
    assertNotEquals(right, of(block(1, 2), block(9, 4)));
    assertNotEquals(right, of(block(1, 2), block(3, 9)));
    assertNotEquals(right, of(block(1, 2), block(4, 3)), "another order");
    assertNotEquals(right, of(block(3, 4), block(1, 2)), "another order of blocks");
    assertNotEquals(right, of(block(1, 2), block(3)), "a row less");
    assertNotEquals(right, of(block(1, 2), block(3, 4, 4)), "a row twice");
  }
}
