package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.lang.reflect.InvocationTargetException;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.ReliableRDDCheckpointData;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.BlockManagerMaster;
import org.apache.spark.storage.StorageLevel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the input of a gang readable again. Behind a shuffle it is not: when an executor dies, its
 * shuffle files die too, and Spark starts the whole stage again, living ranks first, while these
 * wait for the dead one; and a shuffle block that is read again gives its rows in another order,
 * which is another model. So the prepared partitions are stored once, on several executors, before
 * the gang starts.
 */
final class InputPreparation {
  private static final Logger LOG = LoggerFactory.getLogger(InputPreparation.class);
  private static final int FILLS = 4;

  /** How Spark begins the error of a job that was ended; Spark 4 has a name for it before that. */
  private static final Pattern CANCELLED =
      Pattern.compile("(\\[SPARK_JOB_CANCELLED\\] )?Job \\d+ cancelled");

  private final SettingValues settings;
  private final SparkSession session;
  private final SparkContext context;
  private final Optional<DurableJob> durable;

  /** {@code durable}: where the pages of a durable training are. */
  InputPreparation(SettingValues settings, SparkSession session, Optional<DurableJob> durable) {
    this.settings = settings;
    this.session = session;
    this.context = session.sparkContext();
    this.durable = durable;
  }

  /**
   * Prepares one data set.
   *
   * @param what training or evaluation, for messages
   * @param prepared what is trained on; not asked for where a durable training has its pages
   * @param workers the number of partitions that it must have
   * @throws RejoinException BAD_ARGUMENT for an input that can't be used; IO when the copies can't
   *     be made
   */
  PreparedInput prepare(String what, Supplier<PagedRows> prepared, int workers) {
    // Adaptive execution runs the stages before a shuffle as soon as it is asked for partitions.
    return ownReason(context, () -> stored(what, prepared, workers));
  }

  private PreparedInput stored(String what, Supplier<PagedRows> prepared, int workers) {
    if (durable.isPresent()) {
      return durable
          .get()
          .input(
              what,
              () -> {
                PagedRows paged = prepared.get();
                return pages(what, rows(what, paged.rows, workers), paged.format);
              });
    }
    PagedRows paged = prepared.get();
    RDD<InternalRow> rows = rows(what, paged.rows, workers);
    switch (settings.text(SparkSettings.INPUT)) {
      case "replicate":
        return replicate(what, rows, paged.format);
      case "checkpoint":
        return checkpoint(pages(what, rows, paged.format));
      default:
        return reread(what, pages(what, rows, paged.format));
    }
  }

  private static RDD<InternalRow> rows(String what, Dataset<?> prepared, int workers) {
    RDD<InternalRow> rows = prepared.queryExecution().toRdd();
    int partitions = rows.getNumPartitions();
    if (partitions != workers) {
      throw bad(
          "the prepared %s input has %d partitions for %d workers; repartition it to %d before the"
              + " fit",
          what, partitions, workers, workers);
    }
    if (rows.isBarrier()) {
      throw bad(
          "the %s input is computed in barrier mode (RDD.barrier), which would make the whole gang"
              + " a barrier stage: one death would end it. Write or checkpoint the data before the"
              + " fit",
          what);
    }
    return rows;
  }

  private static RDD<byte[]> pages(String what, RDD<InternalRow> rows, PageFormat format) {
    RDD<byte[]> pages =
        new DerivedRdd<>(
            byte[].class,
            Collections.singletonList(rows),
            (split, context) ->
                format.pages(ScalaCollections.iterator(rows.iterator(split.of(0), context))));
    return pages.setName("rejoin " + what + " input");
  }

  /**
   * Stores the pages once, and goes on: the executors make the further copies meanwhile. A page
   * that is lost before it has a second one is made anew, as one that has lost both.
   */
  private PreparedInput replicate(String what, RDD<InternalRow> rows, PageFormat format) {
    for (int fill = 1; ; fill++) {
      // Asked again each time: executors come and go.
      int executors = executors(context);
      int copies = Math.max(1, Math.min((int) settings.number(SparkSettings.REPLICAS), executors));
      // New ones each time: what belongs to a fill that was given up may still be on its way.
      RDD<byte[]> pages = pages(what, rows, format);
      PageStore store = new PageStore(pages, copies);
      pages.persist(PageStore.LEVEL);
      boolean isStored = false;
      try {
        List<PartitionPages> partitions =
            collect(
                new DerivedRdd<>(
                    PartitionPages.class,
                    Collections.singletonList(pages),
                    (split, context) ->
                        Collections.singletonList(store.fill(split.of(0), context)).iterator()));
        isStored = !partitions.contains(null) && store.fewestCopies(partitions) >= 1;
        if (isStored) {
          return new PreparedInput(
              new StoredPages(pages, store, partitions),
              copies - 1,
              CopiesWatch.begin(what, copies, () -> store.fewestCopies(partitions)),
              () -> pages.unpersist(false));
        }
      } finally {
        // What was refused or interrupted leaves no copies behind.
        if (!isStored) {
          PreparedInput.free(() -> pages.unpersist(true));
        }
      }
      if (fill == FILLS) {
        throw notStored(what, executors);
      }
      LOG.warn("a page of the {} input was lost as soon as it was stored; filling again", what);
      pause(fill);
    }
  }

  private static RejoinException notStored(String what, int executors) {
    return new RejoinException(
        RejoinException.Code.IO,
        String.format(
            Locale.ROOT,
            "the pages of the %s input couldn't all be stored on the executors' disks (%d"
                + " executors), after %d tries; look for failed or lost executors in the log, and"
                + " for free disk space where spark.local.dir is",
            what,
            executors,
            FILLS));
  }

  /** Waits, so that Spark learns which executors have come and gone. */
  private static void pause(int seconds) {
    try {
      Thread.sleep(seconds * 1000L);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new RejoinException(
          RejoinException.Code.CANCELLED, "interrupted while the input was stored");
    }
  }

  private PreparedInput checkpoint(RDD<byte[]> pages) {
    if (context.getCheckpointDir().isEmpty()) {
      throw bad(
          "spark.rejoin.input is checkpoint, but there is no checkpoint directory; call"
              + " SparkContext.setCheckpointDir with a directory that all executors reach");
    }
    // Spark computes a partition again to checkpoint it; without the copy that could be in another
    // order.
    pages.persist(StorageLevel.DISK_ONLY());
    pages.checkpoint();
    // Spark leaves the files there, even when the application ends.
    Runnable release = () -> ReliableRDDCheckpointData.cleanCheckpoint(context, pages.id());
    boolean isStored = false;
    try {
      try {
        ownReason(pages.context(), pages::count);
      } finally {
        PreparedInput.free(() -> pages.unpersist(true));
      }
      PreparedInput input = readAgain(pages, release);
      isStored = true;
      return input;
    } finally {
      if (!isStored) {
        PreparedInput.free(release);
      }
    }
  }

  private PreparedInput reread(String what, RDD<byte[]> pages) {
    if (shuffles(pages, new HashSet<>())) {
      throw bad(
          "spark.rejoin.input is reread, but a shuffle lies behind the %s input (repartition, join,"
              + " sort, or more or fewer partitions than workers): a restarted rank would read its"
              + " rows in another order. Use replicate or checkpoint, or write the data as one file"
              + " per worker",
          what);
    }
    return readAgain(pages, () -> {});
  }

  /** Reads the pages once for their fingerprints; nothing but the RDD that makes them has them. */
  private static PreparedInput readAgain(RDD<byte[]> pages, Runnable release) {
    List<PartitionPages> partitions =
        collect(
            new DerivedRdd<>(
                PartitionPages.class,
                Collections.singletonList(pages),
                (split, context) ->
                    Collections.singletonList(
                            PartitionPages.of(
                                split.index(),
                                ScalaCollections.iterator(pages.iterator(split.of(0), context))))
                        .iterator()));
    return new PreparedInput(new StoredPages(pages, null, partitions), Integer.MAX_VALUE, release);
  }

  private static boolean shuffles(RDD<?> rdd, Set<Integer> seen) {
    if (!seen.add(rdd.id())) {
      return false;
    }
    return ScalaCollections.rest(rdd.dependencies().iterator()).stream()
        .anyMatch(it -> it instanceof ShuffleDependency || shuffles(it.rdd(), seen));
  }

  /** One for each partition, by partition. */
  static <T> List<T> collect(RDD<T> partitions) {
    return ownReason(partitions.context(), () -> partitions.toJavaRDD().collect());
  }

  /**
   * Does what runs jobs of Spark's, and where a task has found that the rows can't be used, throws
   * that. Spark lets a job run on whose thread is interrupted; here it is ended, and so are stages
   * that adaptive execution has begun.
   *
   * @throws RejoinException the task's; CANCELLED when the thread is interrupted or a user has
   *     ended such a job
   */
  static <T> T ownReason(SparkContext context, Callable<T> job) {
    String tag = "rejoin-input-" + UUID.randomUUID();
    context.addJobTag(tag);
    try {
      return job.call();
    } catch (InterruptedException interrupted) {
      context.cancelJobsWithTag(tag);
      Thread.currentThread().interrupt();
      throw new RejoinException(
          RejoinException.Code.CANCELLED, "interrupted while the input was stored", interrupted);
    } catch (Exception failed) {
      for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
        if (cause instanceof RejoinException) {
          throw (RejoinException) cause;
        }
        if (cause instanceof SparkException && isCancelled(cause.getMessage())) {
          throw new RejoinException(
              RejoinException.Code.CANCELLED,
              "Spark ended the job that stores the input: " + cause.getMessage(),
              failed);
        }
      }
      throw Sneaky.rethrown(failed);
    } finally {
      context.removeJobTag(tag);
    }
  }

  /** Whether Spark says so of a job that was ended by a call or in its web UI. */
  private static boolean isCancelled(String message) {
    return message != null && CANCELLED.matcher(message).lookingAt();
  }

  /**
   * The stored rows of {@link SparkRowPages} as a data frame. Its method is in another class from
   * Spark 4 on, with the same name.
   */
  @SuppressWarnings("unchecked")
  Dataset<Row> frame(PreparedInput input, StructType schema) {
    int fields = schema.size();
    RDD<InternalRow> rows =
        input
            .stored()
            .pages()
            .toJavaRDD()
            .mapPartitions(each -> SparkRowPages.rows(each, fields))
            .rdd();
    try {
      return (Dataset<Row>)
          session
              .getClass()
              .getMethod("internalCreateDataFrame", RDD.class, StructType.class, boolean.class)
              .invoke(session, rows, schema, false);
    } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException e) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "Spark "
              + context.version()
              + " has no usable SparkSession.internalCreateDataFrame; supported are 3.5 and 4.1",
          e);
    }
  }

  /** How many executors can hold copies: in local mode the driver, else all but the driver. */
  static int executors(SparkContext context) {
    return (int)
        blockManagers()
            .filter(one -> context.isLocal() || !one.isDriver())
            .map(BlockManagerId::executorId)
            .distinct()
            .count();
  }

  /** What stores blocks now: the executors, and the driver. */
  static Stream<BlockManagerId> blockManagers() {
    BlockManagerMaster master = SparkEnv.get().blockManager().master();
    return ScalaCollections.rest(master.getMemoryStatus().keys().iterator()).stream();
  }

  private static RejoinException bad(String format, Object... facts) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT, String.format(Locale.ROOT, format, facts));
  }
}
