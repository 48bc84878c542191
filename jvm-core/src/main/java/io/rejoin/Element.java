package io.rejoin;

/** What a buffer is made of, in the machine's byte order. */
public enum Element {
  /** One byte with a sign, as Java's byte. */
  I8(1),
  /** As Java's short. */
  I16(2),
  /** As Java's int. */
  I32(4),
  /** As Java's long. */
  I64(8),
  /** One byte without a sign; and plain bytes. */
  U8(1),
  /** Two bytes without a sign. */
  U16(2),
  /** Four bytes without a sign. */
  U32(4),
  /** Eight bytes without a sign. */
  U64(8),
  /** IEEE 754 half precision. */
  F16(2),
  /** The upper half of a float. */
  BF16(2),
  /** As Java's float. */
  F32(4),
  /** As Java's double. */
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
