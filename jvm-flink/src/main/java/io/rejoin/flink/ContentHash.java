package io.rejoin.flink;

import java.io.IOException;

/** A hash of what a row holds. */
interface ContentHash<T> {
  /** 64 bits, the same for equal rows. */
  long of(T row) throws IOException;
}
