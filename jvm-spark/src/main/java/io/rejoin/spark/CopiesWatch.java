package io.rejoin.spark;

import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Follows on the driver how many copies the pages of an input have, while the executors make them,
 * and logs when all are there, or that they are late.
 */
final class CopiesWatch implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(CopiesWatch.class);
  private static final long LOOK_MILLIS = 200;
  private static final long LATE_MILLIS = 60_000;

  /** Of its own time a look takes at most one part of so many: there may be a million of pages. */
  private static final int SHARE = 20;

  private final String what;
  private final int copies;
  private final IntSupplier fewest;
  private volatile boolean complete;
  private volatile boolean closed;

  private CopiesWatch(String what, int copies, IntSupplier fewest) {
    this.what = what;
    this.copies = copies;
    this.fewest = fewest;
  }

  /**
   * Begins to watch.
   *
   * @param what training or evaluation, for messages
   * @param copies how many each page is to have
   * @param fewest how many the page with the fewest has now
   */
  static CopiesWatch begin(String what, int copies, IntSupplier fewest) {
    CopiesWatch watch = new CopiesWatch(what, copies, fewest);
    watch.complete = fewest.getAsInt() >= copies;
    if (!watch.complete) {
      Thread thread = new Thread(watch::follow, "rejoin-copies-" + what);
      thread.setDaemon(true);
      thread.start();
    }
    return watch;
  }

  /** Whether each page has all its copies, or had them once. */
  boolean isComplete() {
    return complete;
  }

  private void follow() {
    long begin = System.nanoTime();
    boolean late = false;
    try {
      while (!closed) {
        long look = System.nanoTime();
        int now = fewest.getAsInt();
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - look);
        long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
        if (now >= copies) {
          complete = true;
          LOG.info(
              "each page of the {} input is on {} executors, {} ms after the first copies",
              what,
              copies,
              waited);
          return;
        }
        if (!late && waited > LATE_MILLIS) {
          late = true;
          LOG.warn(
              "after {} s a page of the {} input is on {} executors instead of {}"
                  + " (spark.rejoin.input.replicas): if these die, its rows are computed again;"
                  + " look for rejoin-page-copies in the executors' logs, and for free disk space",
              TimeUnit.MILLISECONDS.toSeconds(waited),
              what,
              now,
              copies);
        }
        Thread.sleep(Math.max(LOOK_MILLIS, SHARE * took));
      }
    } catch (Exception ended) {
      // The context is stopped, which Spark may say by a checked one; nobody asks any more.
      LOG.debug("the copies of the {} input aren't followed any more", what, ended);
    }
  }

  @Override
  public void close() {
    closed = true;
  }
}
