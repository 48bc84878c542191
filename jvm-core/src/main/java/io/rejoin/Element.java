package io.rejoin;

/** What a buffer is made of, in the machine's byte order. */
public enum Element {
  I8(1),
  I16(2),
  I32(4),
  I64(8),
  /** And plain bytes. */
  U8(1),
  U16(2),
  U32(4),
  U64(8),
  /** IEEE 754 half precision. */
  F16(2),
  /** The upper half of a float. */
  BF16(2),
  F32(4),
  F64(8);

  private final int bytes;

  Element(int bytes) {
    this.bytes = bytes;
  }

  /** How many bytes an element has. */
  public int bytes() {
    return bytes;
  }
}
