package io.rejoin.it.flink;

import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/** Waits for what a cluster does by itself: looks again and again, until a limit. */
public final class Waiting {
  private static final long BETWEEN_LOOKS_MILLIS = 20;

  private Waiting() {}

  /** What is looked for. */
  @FunctionalInterface
  public interface Look<T> {
    /** What was found, or null: not yet. */
    T look() throws Exception;
  }

  /**
   * Looks until something is found.
   *
   * @param what in words, for the error
   * @throws AssertionError when nothing was found within the limit
   */
  public static <T> T until(String what, Duration limit, Look<T> look) throws Exception {
    long deadline = System.nanoTime() + limit.toNanos();
    while (true) {
      T found = look.look();
      if (found != null) {
        return found;
      }
      if (System.nanoTime() - deadline > 0) {
        throw new AssertionError("waited " + limit.toSeconds() + " s in vain until " + what);
      }
      TimeUnit.MILLISECONDS.sleep(BETWEEN_LOOKS_MILLIS);
    }
  }

  /** Looks until it is so; else as {@link #until}. */
  public static void untilTrue(String what, Duration limit, Callable<Boolean> look)
      throws Exception {
    until(what, limit, () -> look.call() ? Boolean.TRUE : null);
  }
}
