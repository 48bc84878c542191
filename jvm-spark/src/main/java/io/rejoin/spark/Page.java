package io.rejoin.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;

/**
 * A page: some rows of a partition in the form in which a trainer takes them; what is stored,
 * copied, fingerprinted and verified. The layout is described in docs/pages.md. This is its head,
 * 24 bytes; what follows depends on the kind.
 */
final class Page {
  /** What a page holds. */
  enum Kind {
    /** Every value of every row, as 32-bit floating point numbers. */
    DENSE_F32(1),
    /** Of each row the values that are not missing, and their columns. */
    CSR_F32(2),
    /** Rows in Spark's own format, compressed. */
    SPARK_ROWS(3);

    private final int number;

    Kind(int number) {
      this.number = number;
    }
  }

  static final int WEIGHTS = 1;
  static final int MARGINS = 2;
  static final int GROUPS = 4;

  /** Some row came as a sparse vector. */
  static final int FROM_SPARSE = 8;

  static final int HEAD_BYTES = 24;
  private static final int MAGIC = 0x47504a52; // "RJPG"
  private static final short VERSION = 1;

  private final ByteBuffer bytes;
  private final Kind kind;

  private Page(ByteBuffer bytes, Kind kind) {
    this.bytes = bytes;
    this.kind = kind;
  }

  /** Room for a page, its head written: the position is where its content begins. */
  static ByteBuffer begin(Kind kind, int flags, int rows, int columns, long values, long content) {
    long length = HEAD_BYTES + content;
    if (length > Integer.MAX_VALUE - Long.BYTES) {
      throw new IllegalArgumentException(
          "a page of " + rows + " rows would be of " + length + " bytes, more than an array holds");
    }
    return ByteBuffer.allocate((int) length)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(MAGIC)
        .putShort(VERSION)
        .put((byte) kind.number)
        .put((byte) flags)
        .putInt(rows)
        .putInt(columns)
        .putLong(values);
  }

  /**
   * Reads a page's head.
   *
   * @throws IllegalArgumentException if it is none of this version
   */
  static Page of(byte[] page) {
    ByteBuffer bytes = ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN);
    if (page.length < HEAD_BYTES || bytes.getInt(0) != MAGIC || bytes.getShort(4) != VERSION) {
      throw new IllegalArgumentException(
          "expected a page of version " + VERSION + ", saw " + page.length + " other bytes");
    }
    for (Kind kind : Kind.values()) {
      if (kind.number == bytes.get(6)) {
        return new Page(bytes, kind);
      }
    }
    throw new IllegalArgumentException(
        String.format(Locale.ROOT, "a page of an unknown kind, %d", bytes.get(6)));
  }

  Kind kind() {
    return kind;
  }

  boolean has(int flag) {
    return (flags() & flag) != 0;
  }

  int flags() {
    return bytes.get(7);
  }

  int rows() {
    return bytes.getInt(8);
  }

  int columns() {
    return bytes.getInt(12);
  }

  /** Of matrices the values that it holds; of Spark's rows their bytes before compression. */
  long values() {
    return bytes.getLong(16);
  }

  /** What follows the head. */
  ByteBuffer content() {
    ByteBuffer content = bytes.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    content.position(HEAD_BYTES);
    return content;
  }
}
