package io.rejoin.spark;

/** Scala throws checked exceptions without saying so; here is how to pass one on as it came. */
final class Sneaky {
  private Sneaky() {}

  /** Throws it; returns nothing, so that callers can write {@code throw}. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException rethrown(Throwable seen) throws E {
    throw (E) seen;
  }
}
