package io.rejoin.spark;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.RDDBlockId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Makes the further copies of pages, on a thread of the executor that has stored them, so that no
 * rank waits for them, and sees to it that they stay as many for as long as the pages are here.
 * Spark makes copies anew after a death by itself (spark.storage.replication.proactive), but tries
 * it once: where no other executor is there at that moment, nobody would make them when one comes.
 */
final class PageCopies {
  private static final Logger LOG = LoggerFactory.getLogger(PageCopies.class);

  /** From new pages to the first look, so that one look is for many of them. */
  private static final long BEGIN_MILLIS = 100;

  /** While copies are missing: Spark learns meanwhile which executors have come and gone. */
  private static final long SOON_MILLIS = 1_000;

  private static final long SELDOM_MILLIS = 5_000;
  private static final long LATE_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final PageCopies OF_PROCESS = new PageCopies();

  private final ScheduledThreadPoolExecutor thread = thread();

  // The rest is the thread's.

  /** On how many executors each of these pages is to be. */
  private final Map<RDDBlockId, Integer> wanted = new LinkedHashMap<>();

  private Future<?> next;
  private boolean isMissing;
  private long missingSince;
  private boolean saidLate;

  private PageCopies() {}

  private static ScheduledThreadPoolExecutor thread() {
    ScheduledThreadPoolExecutor one =
        new ScheduledThreadPoolExecutor(
            1,
            work -> {
              Thread thread = new Thread(work, "rejoin-page-copies");
              thread.setDaemon(true);
              return thread;
            });
    one.setKeepAliveTime(1, TimeUnit.SECONDS);
    one.allowCoreThreadTimeOut(true);
    one.setRemoveOnCancelPolicy(true);
    return one;
  }

  /** Begins to have so many copies of each of these blocks, which are here; returns at once. */
  static void begin(List<RDDBlockId> blocks, int copies) {
    if (copies > 1) {
      OF_PROCESS.thread.execute(() -> OF_PROCESS.want(blocks, copies));
    }
  }

  private void want(List<RDDBlockId> blocks, int copies) {
    blocks.forEach(block -> wanted.put(block, copies));
    lookIn(BEGIN_MILLIS);
  }

  private void lookIn(long millis) {
    if (next != null) {
      next.cancel(false);
    }
    next = thread.schedule(this::look, millis, TimeUnit.MILLISECONDS);
  }

  private void look() {
    List<RDDBlockId> missing;
    try {
      missing = makeCopies();
    } catch (Exception failed) {
      // Spark throws checked ones, too. A driver that doesn't answer now may do so the next time.
      LOG.debug("where the copies of {} pages are isn't known", wanted.size(), failed);
      if (SparkEnv.get() == null) {
        wanted.clear();
      } else {
        lookIn(SELDOM_MILLIS);
      }
      return;
    }
    if (missing.isEmpty()) {
      isMissing = false;
      saidLate = false;
    } else if (!isMissing) {
      isMissing = true;
      missingSince = System.nanoTime();
    } else if (!saidLate && System.nanoTime() - missingSince > LATE_NANOS) {
      saidLate = true;
      LOG.warn(
          "{} of {} pages have had fewer copies than the {} that they should have for {} s; {} is"
              + " the first of them; it is tried again until there is another executor for them",
          missing.size(),
          wanted.size(),
          wanted.get(missing.get(0)),
          TimeUnit.NANOSECONDS.toSeconds(LATE_NANOS),
          missing.get(0));
    }
    if (!wanted.isEmpty()) {
      lookIn(missing.isEmpty() || saidLate ? SELDOM_MILLIS : SOON_MILLIS);
    }
  }

  /** Those of which a copy could not be made; forgets those that aren't here any more. */
  private List<RDDBlockId> makeCopies() {
    if (wanted.isEmpty()) {
      return new ArrayList<>();
    }
    BlockManagerId here = SparkEnv.get().blockManager().blockManagerId();
    List<RDDBlockId> missing = new ArrayList<>();
    List<RDDBlockId> blocks = new ArrayList<>(wanted.keySet());
    Iterator<List<BlockManagerId>> places = PageStore.locations(blocks).iterator();
    for (RDDBlockId block : blocks) {
      List<BlockManagerId> others = places.next();
      int copies = wanted.get(block);
      if (!others.remove(here)) {
        // It has been freed, or one who has it copies it.
        wanted.remove(block);
      } else if (others.size() + 1 < copies && !isCopied(block, others, copies)) {
        missing.add(block);
      }
    }
    return missing;
  }

  private static boolean isCopied(RDDBlockId block, List<BlockManagerId> others, int copies) {
    try {
      BlockManager here = SparkEnv.get().blockManager();
      return here.replicateBlock(block, ScalaCollections.set(others), copies, Option.apply(null));
    } catch (Exception failed) {
      // It would end the copying of all others without a word.
      LOG.debug("block {} can't be copied", block, failed);
      return false;
    }
  }
}
