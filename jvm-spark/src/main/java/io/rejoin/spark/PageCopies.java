package io.rejoin.spark;

import java.util.ArrayList;
import java.util.List;
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
 * rank waits for them. It is what Spark does by itself after a death
 * (spark.storage.replication.proactive).
 */
final class PageCopies {
  private static final Logger LOG = LoggerFactory.getLogger(PageCopies.class);
  private static final int TRIES = 5;
  private static final ScheduledThreadPoolExecutor THREAD = thread();

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
    return one;
  }

  /** Begins to have so many copies of each of these blocks, which are here; returns at once. */
  static void begin(List<RDDBlockId> blocks, int copies) {
    if (copies > 1) {
      THREAD.execute(() -> copy(blocks, copies, 1));
    }
  }

  private static void copy(List<RDDBlockId> blocks, int copies, int attempt) {
    List<RDDBlockId> missing = new ArrayList<>();
    for (RDDBlockId block : blocks) {
      if (!isCopied(block, copies)) {
        missing.add(block);
      }
    }
    if (missing.isEmpty()) {
      return;
    }
    if (attempt == TRIES) {
      LOG.warn(
          "{} of {} pages have fewer copies than the {} that they should have, after {} tries; {}"
              + " is the first of them",
          missing.size(),
          blocks.size(),
          copies,
          TRIES,
          missing.get(0));
      return;
    }
    // Spark learns meanwhile which executors have come and gone.
    THREAD.schedule(() -> copy(missing, copies, attempt + 1), attempt, TimeUnit.SECONDS);
  }

  private static boolean isCopied(RDDBlockId block, int copies) {
    try {
      BlockManager here = SparkEnv.get().blockManager();
      List<BlockManagerId> others = new ArrayList<>(PageStore.locations(block));
      boolean isHere = others.remove(here.blockManagerId());
      // Where it isn't, it has been freed, and one who has it copies it.
      return !isHere
          || others.size() + 1 >= copies
          || here.replicateBlock(block, ScalaCollections.set(others), copies, Option.apply(null));
    } catch (Exception failed) {
      // Spark throws checked ones, too, which would end the copying of all others without a word.
      LOG.debug("block {} can't be copied", block, failed);
      return false;
    }
  }
}
