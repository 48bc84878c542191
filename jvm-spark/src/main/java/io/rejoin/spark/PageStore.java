package io.rejoin.spark;

import io.rejoin.RowFingerprint;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.Partition;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.DataReadMethod;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.rdd.RDD;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.BlockResult;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageLevel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Pages as Spark's blocks, one block each, on several executors. They are blocks of an RDD, so that
 * Spark makes copies anew when an executor dies, moves them when one is decommissioned ({@code
 * spark.storage.decommission.enabled}), and frees all of them with the RDD. Page n of partition p
 * is block p + n · partitions: the first pages have the numbers of the RDD's partitions, and so
 * Spark's scheduler takes these as cached and doesn't repeat a shuffle behind them.
 */
final class PageStore implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(PageStore.class);
  private static final ClassTag<byte[]> TAG = ClassTag$.MODULE$.apply(byte[].class);

  /** One copy, on disk; the others are made by {@link PageCopies}. */
  static final StorageLevel LEVEL = StorageLevel.DISK_ONLY();

  private final RDD<byte[]> pages;
  private final int partitions;
  private final int copies;

  /**
   * For the pages of this RDD, which must be persisted at {@link #LEVEL}, and never be read by its
   * own iterator.
   *
   * @param copies on how many executors each page is to be
   */
  PageStore(RDD<byte[]> pages, int copies) {
    this.pages = pages;
    this.partitions = pages.getNumPartitions();
    this.copies = copies;
  }

  RDDBlockId block(int partition, int page) {
    return new RDDBlockId(
        pages.id(), Math.addExact(partition, Math.multiplyExact(page, partitions)));
  }

  /**
   * Makes and stores the pages of a partition, in a task; the further copies are made behind it.
   * What an earlier try of the task has stored may have come in another order.
   *
   * @return the fingerprints of what is stored; null if an earlier try has stored other pages
   */
  PartitionPages fill(Partition split, TaskContext context) {
    PartitionPages all = new PartitionPages(split.index());
    Iterator<byte[]> made = ScalaCollections.iterator(pages.compute(split, context));
    boolean again = context.attemptNumber() > 0 || context.stageAttemptNumber() > 0;
    while (made.hasNext()) {
      byte[] page = made.next();
      RDDBlockId block = block(split.index(), all.count());
      if (again && isStored(block)) {
        if (!Arrays.equals(page, read(block, context))) {
          return null;
        }
      } else {
        put(block, page);
      }
      all.add(page);
    }
    if (all.count() == 0) {
      // So that the scheduler knows it.
      put(block(split.index(), 0), new byte[0]);
    }
    PageCopies.begin(blocks(all), copies);
    return all;
  }

  private List<RDDBlockId> blocks(PartitionPages all) {
    return IntStream.range(0, Math.max(1, all.count()))
        .mapToObj(page -> block(all.partition(), page))
        .collect(Collectors.toList());
  }

  /**
   * Reads a page from where it is, preferably here.
   *
   * @return null if it is nowhere, or not what it has to be
   */
  byte[] read(int partition, int number, RowFingerprint expected, TaskContext context) {
    RDDBlockId block = block(partition, number);
    byte[] page = read(block, context);
    if (page == null) {
      return page;
    }
    if (isPage(page, expected)) {
      keep(block, page, context);
      return page;
    }
    LOG.warn("a copy of page {} of partition {} is damaged", number, partition);
    if (isHere(block)) {
      blockManager().removeBlock(block, true);
    }
    return otherCopy(block, expected);
  }

  /**
   * Of a rank that comes back: who has made the page, and has seen to its copies, may be gone.
   * Where one is missing it is here now, and this executor sees to them.
   */
  private void keep(RDDBlockId block, byte[] page, TaskContext context) {
    if (copies == 1 || context.attemptNumber() == 0 && context.stageAttemptNumber() == 0) {
      return;
    }
    List<BlockManagerId> holders = locations(block);
    boolean isHere = holders.contains(blockManager().blockManagerId());
    if (!isHere && holders.size() < copies) {
      put(block, page);
      isHere = true;
    }
    if (isHere) {
      PageCopies.begin(Collections.singletonList(block), copies);
    }
  }

  /** Asks each other executor that has the page for it; null if none has it as it has to be. */
  private static byte[] otherCopy(RDDBlockId block, RowFingerprint expected) {
    for (BlockManagerId holder : locations(block)) {
      if (!holder.equals(blockManager().blockManagerId())) {
        byte[] page = readFrom(holder, block);
        if (page != null && isPage(page, expected)) {
          return page;
        }
        LOG.warn("executor {} has no good copy of {}", holder.executorId(), block);
      }
    }
    return null;
  }

  private static byte[] readFrom(BlockManagerId holder, RDDBlockId block) {
    ManagedBuffer sent = null;
    try {
      sent =
          blockManager()
              .blockTransferService()
              .fetchBlockSync(
                  holder.host(), holder.port(), holder.executorId(), block.toString(), null);
      scala.collection.Iterator<?> data =
          blockManager()
              .serializerManager()
              .dataDeserializeStream(block, sent.createInputStream(), TAG);
      Object page = data.next();
      return page instanceof byte[] ? (byte[]) page : null;
    } catch (Exception unreadable) {
      LOG.debug("block {} can't be read from {}", block, holder, unreadable);
      return null;
    } finally {
      if (sent != null) {
        sent.release();
      }
    }
  }

  private static boolean isPage(byte[] page, RowFingerprint expected) {
    try {
      return PartitionPages.fingerprint(page).equals(expected);
    } catch (IllegalArgumentException damaged) {
      return false;
    }
  }

  /**
   * The pages of a partition made anew, because one of them is lost; {@link #restore} stores them.
   * Where that fails, for instance because a shuffle behind them is lost too, Spark has to repeat
   * more than this task, and it does so only if the scheduler knows of no first page.
   */
  Iterator<byte[]> again(Partition split, TaskContext context) {
    LOG.warn("a page of partition {} is lost; its rows are computed again", split.index());
    RDDBlockId first = block(split.index(), 0);
    Iterator<byte[]> made =
        orForget(first, () -> ScalaCollections.iterator(pages.compute(split, context)));
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return orForget(first, made::hasNext);
      }

      @Override
      public byte[] next() {
        return orForget(first, made::next);
      }
    };
  }

  private static <T> T orForget(RDDBlockId first, Supplier<T> making) {
    try {
      return making.get();
    } catch (Exception failed) {
      blockManager().master().removeBlock(first);
      throw Sneaky.rethrown(failed);
    }
  }

  /** Stores a page that was made anew, and verified, unless it is there. */
  void restore(int partition, int number, byte[] page) {
    RDDBlockId block = block(partition, number);
    if (!isStored(block)) {
      put(block, page);
      PageCopies.begin(Collections.singletonList(block), copies);
    }
  }

  /** On how many executors the page with the fewest copies is. */
  int fewestCopies(List<PartitionPages> all) {
    List<RDDBlockId> blocks =
        all.stream().flatMap(each -> blocks(each).stream()).collect(Collectors.toList());
    return locations(blocks).stream().mapToInt(List::size).min().orElse(Integer.MAX_VALUE);
  }

  /** The executors that have a partition's first page. */
  List<BlockManagerId> holders(int partition) {
    return locations(block(partition, 0));
  }

  private static List<BlockManagerId> locations(RDDBlockId block) {
    return locations(Collections.singletonList(block)).get(0);
  }

  /**
   * The executors that have each of these, each once: where an executor's shuffle service reads its
   * blocks for it (spark.shuffle.service.fetch.rdd.enabled), Spark knows that as another place.
   */
  static List<List<BlockManagerId>> locations(List<RDDBlockId> blocks) {
    BlockId[] ids = blocks.toArray(new RDDBlockId[0]);
    List<List<BlockManagerId>> all = new ArrayList<>();
    for (scala.collection.Seq<BlockManagerId> places :
        ScalaCollections.rest(blockManager().master().getLocations(ids).iterator())) {
      Map<String, BlockManagerId> byExecutor = new LinkedHashMap<>();
      BlockManagerId here = blockManager().blockManagerId();
      for (BlockManagerId place : ScalaCollections.rest(places.iterator())) {
        byExecutor.merge(
            place.executorId(), place, (one, other) -> other.equals(here) ? other : one);
      }
      all.add(new ArrayList<>(byExecutor.values()));
    }
    return all;
  }

  private static BlockManager blockManager() {
    return SparkEnv.get().blockManager();
  }

  private static boolean isStored(RDDBlockId block) {
    return !locations(block).isEmpty();
  }

  private static boolean isHere(RDDBlockId block) {
    return locations(block).contains(blockManager().blockManagerId());
  }

  private static void put(RDDBlockId block, byte[] page) {
    blockManager().putSingle(block, page, LEVEL, true, TAG);
  }

  /** Null if it is nowhere, and an empty one if it can't be read. */
  private static byte[] read(RDDBlockId block, TaskContext context) {
    Option<BlockResult> found;
    try {
      found = blockManager().get(block, TAG);
    } catch (Exception unreadable) {
      // A file that is gone, say. Spark throws checked exceptions, too, which Scala declares
      // nowhere.
      if (context.isInterrupted() || Thread.currentThread().isInterrupted()) {
        throw new IllegalStateException("interrupted at " + block, unreadable);
      }
      LOG.debug("block {} can't be read", block, unreadable);
      return new byte[0];
    }
    if (found.isEmpty()) {
      return null;
    }
    context.taskMetrics().inputMetrics().incBytesRead(found.get().bytes());
    scala.collection.Iterator<Object> data = found.get().data();
    try {
      Object page = data.next();
      // The end of the data releases the block.
      if (page instanceof byte[] && !data.hasNext()) {
        return (byte[]) page;
      }
    } catch (RuntimeException unreadable) {
      if (context.isInterrupted()) {
        throw unreadable;
      }
      LOG.debug("block {} can't be read", block, unreadable);
    }
    // The task would wait for itself when it removes the block.
    if (!found.get().readMethod().equals(DataReadMethod.Network())) {
      blockManager().releaseLock(block, Option.apply(context));
    }
    return new byte[0];
  }
}
