package io.rejoin;

import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the native library asks for the bytes of a lazy checkpoint. Nothing is thrown into it. */
final class Snapshot {
  private static final Logger LOG = LoggerFactory.getLogger(Snapshot.class);

  private final Supplier<byte[]> supplier;

  Snapshot(Supplier<byte[]> supplier) {
    this.supplier = supplier;
  }

  /** Called by the native library, on a thread of its own; null: it could not be made. */
  synchronized byte[] supply() {
    try {
      return supplier.get();
    } catch (Throwable e) {
      LOG.warn("the supplier of a lazy checkpoint failed; another rank is asked", e);
      return null;
    }
  }
}
