package io.rejoin.elastic;

/** A part of a {@link State} that keeps itself. */
public interface Value {
  /** What it is now: equal bytes at all ranks that have made the same steps. */
  byte[] save();

  /** Is again what it was when these bytes were saved, here or at another rank. */
  void restore(byte[] saved);
}
