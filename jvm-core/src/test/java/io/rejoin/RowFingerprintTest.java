package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class RowFingerprintTest {
  private static final byte[] ROWS = {1, 2, 3, 4, 5};

  private static RowFingerprint of(long rows, byte... bytes) {
    return new RowFingerprint.Maker().add(rows, ByteBuffer.wrap(bytes)).made();
  }

  @Test
  void it_is_the_same_wherever_one_call_ends_and_the_next_one_begins() {
    for (int cut = 0; cut <= ROWS.length; cut++) {
      RowFingerprint parts =
          new RowFingerprint.Maker()
              .add(1, ByteBuffer.wrap(ROWS, 0, cut))
              .add(1, ByteBuffer.wrap(ROWS, cut, ROWS.length - cut))
              .made();
      assertEquals(of(2, ROWS), parts, "cut at " + cut);
      assertEquals(of(2, ROWS).hashCode(), parts.hashCode());
      assertEquals(2, parts.rows());
      assertEquals(ROWS.length, parts.bytes());
    }
  }

  @Test
  void any_other_byte_order_or_number_of_rows_is_another_one() {
    for (int at = 0; at < ROWS.length; at++) {
      byte[] other = ROWS.clone();
      other[at] ^= 64;
      assertNotEquals(of(2, ROWS), of(2, other), "byte " + at);
    }
    assertNotEquals(of(2, ROWS), of(2, new byte[] {2, 1, 3, 4, 5}));
    assertNotEquals(of(2, ROWS), of(3, ROWS));
    assertNotEquals(of(2, ROWS), of(2, Arrays.copyOf(ROWS, 4)));
    assertNotEquals(of(0), of(2, ROWS));
  }

  @Test
  void what_is_written_is_read_again_and_nothing_of_it_can_be_left_out() throws IOException {
    ByteArrayOutputStream written = new ByteArrayOutputStream();
    of(2, ROWS).write(new DataOutputStream(written));
    byte[] bytes = written.toByteArray();
    assertEquals(8 + 8 + 32, bytes.length);
    RowFingerprint read = read(bytes);
    assertEquals(of(2, ROWS), read);
    assertEquals(ROWS.length, read.bytes());
    assertEquals(of(2, ROWS).digits(), read.digits());
    for (int length = 0; length < bytes.length; length++) {
      byte[] part = Arrays.copyOf(bytes, length);
      assertThrows(EOFException.class, () -> read(part), "of " + length + " bytes");
    }
  }

  private static RowFingerprint read(byte[] bytes) throws IOException {
    return RowFingerprint.read(new DataInputStream(new ByteArrayInputStream(bytes)));
  }

  @Test
  void the_error_of_other_rows_names_the_rank_both_fingerprints_and_what_to_do() {
    RejoinException error =
        of(2, ROWS).isNot(RejoinException.Code.MISMATCH, of(1), 7, "Keep the source as it was");
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains("rank 7"), error.text());
    assertTrue(error.text().contains("expected 2 rows, 5 bytes"), error.text());
    assertTrue(error.text().contains("read 1 rows, 0 bytes"), error.text());
    assertTrue(error.text().endsWith("Keep the source as it was"), error.text());
  }
}
