package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.Collectors;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.storage.BlockManagerId;

/**
 * The pages of a prepared data set as a rank's task reads them, each verified before it is given.
 */
final class StoredPages {
  private final RDD<byte[]> pages;
  private final PageStore store;
  private final ArrayList<PartitionPages> partitions;

  /**
   * Reads them from a store, or where there is none from the RDD that makes them.
   *
   * @param made the RDD that makes the pages
   * @param store where they are stored; null for none
   * @param partitions what each partition's pages have to be, by partition
   */
  StoredPages(RDD<byte[]> made, PageStore store, List<PartitionPages> partitions) {
    ArrayList<PartitionPages> expected = new ArrayList<>(partitions);
    this.store = store;
    this.partitions = expected;
    this.pages =
        new DerivedRdd<>(
            byte[].class,
            Collections.singletonList(made),
            (split, context) ->
                split instanceof DerivedRdd.Share
                    ? new SharedReading(made, store, expected, (DerivedRdd.Share) split, context)
                    : reading(made, store, expected.get(split.index()), split, context));
  }

  private static Reading reading(
      RDD<byte[]> made,
      PageStore store,
      PartitionPages wanted,
      DerivedRdd.Split split,
      TaskContext context) {
    Partition source = split.of(0);
    return store == null
        ? new Reading(wanted, made.iterator(source, context))
        : new Reading(wanted, store, source, context);
  }

  /** Those of an RDD that verifies them itself. */
  StoredPages(RDD<byte[]> pages, List<PartitionPages> partitions) {
    this.pages = pages;
    this.store = null;
    this.partitions = new ArrayList<>(partitions);
  }

  /**
   * The pages. Reading throws INPUT_LOST when stored ones are lost and others were made in their
   * place, and MISMATCH when pages that are stored nowhere aren't those that were made at first.
   */
  RDD<byte[]> pages() {
    return pages;
  }

  /** For each partition the executors that have its first page; none where no executor has any. */
  List<List<BlockManagerId>> holders() {
    return partitions.stream()
        .map(
            each ->
                store == null
                    ? Collections.<BlockManagerId>emptyList()
                    : store.holders(each.partition()))
        .collect(Collectors.toList());
  }

  /** What each partition's pages have to be; by partition. */
  List<PartitionPages> partitions() {
    return Collections.unmodifiableList(partitions);
  }

  /** A rank's share of all partitions, one run of pages after the other. */
  private static final class SharedReading implements Iterator<byte[]> {
    private final RDD<byte[]> made;
    private final PageStore store;
    private final List<PartitionPages> expected;
    private final DerivedRdd.Share share;
    private final TaskContext context;
    private final Iterator<Shares.Run> runs;
    private Shares.Run run;
    private Reading reading;
    private int page;

    SharedReading(
        RDD<byte[]> made,
        PageStore store,
        List<PartitionPages> expected,
        DerivedRdd.Share share,
        TaskContext context) {
      this.made = made;
      this.store = store;
      this.expected = expected;
      this.share = share;
      this.context = context;
      this.runs = Shares.of(expected, share.rank(), share.world()).iterator();
    }

    @Override
    public boolean hasNext() {
      return reading != null || runs.hasNext();
    }

    @Override
    public byte[] next() {
      if (reading == null) {
        run = runs.next();
        PartitionPages wanted = expected.get(run.partition());
        reading = reading(made, store, wanted, share.partition(run.partition()), context);
        page = run.firstPage();
        reading.beginAt(page);
      }
      byte[] rows = run.rows(page, reading.next());
      if (page++ == run.lastPage()) {
        // Says so if there are more pages than there have to be.
        reading.hasNext();
        reading = null;
      }
      return rows;
    }
  }

  /** From the store, page by page; from the first one on that is lost, made anew. */
  private static final class Reading implements Iterator<byte[]> {
    private final PartitionPages expected;
    private final PageStore store;
    private final Partition split;
    private final TaskContext context;
    private Iterator<byte[]> made;
    private int next;

    Reading(PartitionPages expected, PageStore store, Partition split, TaskContext context) {
      this.expected = expected;
      this.store = store;
      this.split = split;
      this.context = context;
    }

    Reading(PartitionPages expected, scala.collection.Iterator<byte[]> made) {
      this(expected, null, null, null);
      this.made = ScalaCollections.iterator(made);
    }

    /** Leaves out the pages before this one. */
    void beginAt(int page) {
      while (made != null && next < page) {
        verified();
        next++;
      }
      next = page;
    }

    @Override
    public boolean hasNext() {
      if (next < expected.count()) {
        return true;
      }
      if (made != null && made.hasNext()) {
        throw isNot(new RowFingerprint.Maker().made(), PartitionPages.fingerprint(made.next()));
      }
      return false;
    }

    @Override
    public byte[] next() {
      if (next >= expected.count()) {
        throw new NoSuchElementException("the partition has no further page");
      }
      byte[] page = made == null ? stored() : verified();
      next++;
      return page;
    }

    private byte[] stored() {
      byte[] page = store.read(expected.partition(), next, expected.page(next), context);
      if (page != null) {
        return page;
      }
      made = store.again(split, context);
      int lost = next;
      for (next = 0; next < lost; next++) {
        verified();
      }
      return verified();
    }

    private byte[] verified() {
      RowFingerprint wanted = expected.page(next);
      if (!made.hasNext()) {
        throw isNot(wanted, new RowFingerprint.Maker().made());
      }
      byte[] page = made.next();
      RowFingerprint seen = PartitionPages.fingerprint(page);
      if (!seen.equals(wanted)) {
        throw isNot(wanted, seen);
      }
      if (store != null) {
        store.restore(expected.partition(), next, page);
      }
      return page;
    }

    private RejoinException isNot(RowFingerprint wanted, RowFingerprint seen) {
      String page = "page " + next + " of " + expected.count();
      if (store == null) {
        return wanted.isNot(
            RejoinException.Code.MISMATCH,
            seen,
            expected.partition(),
            "Reading its partition again gave other rows or another order in "
                + page
                + "; what it is read from has to stay as it was, or set spark.rejoin.input to"
                + " replicate");
      }
      return wanted.isNot(
          RejoinException.Code.INPUT_LOST,
          seen,
          expected.partition(),
          "All copies of a page of its partition were lost, and computing it again gave other rows"
              + " or another order in "
              + page
              + "; set spark.rejoin.input.replicas higher, or spark.rejoin.input to checkpoint");
    }
  }
}
