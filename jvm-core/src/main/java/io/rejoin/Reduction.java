package io.rejoin;

/**
 * How elements are combined. Integers wrap around; {@link #AND} and what follows are for integers
 * only.
 */
public enum Reduction {
  /** Of all inputs, in an order that is always the same. */
  SUM,
  /** Of all inputs. */
  PRODUCT,
  /** -0 before +0; a NaN among the inputs gives NaN. */
  MIN,
  /** +0 after -0; a NaN among the inputs gives NaN. */
  MAX,
  /** Bit by bit. */
  AND,
  /** Bit by bit. */
  OR,
  /** Bit by bit. */
  XOR
}
