package io.rejoin;

/**
 * How elements are combined. Integers wrap around; {@link #AND} and what follows are for integers
 * only.
 */
public enum Reduction {
  SUM,
  PRODUCT,
  /** -0 before +0; a NaN among the inputs gives NaN. */
  MIN,
  MAX,
  AND,
  OR,
  XOR
}
