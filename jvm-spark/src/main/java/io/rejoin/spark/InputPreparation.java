package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import io.rejoin.settings.SettingValues;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.BlockManagerMaster;
import org.apache.spark.storage.RDDBlockId;
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

  private final SettingValues settings;
  private final SparkSession session;
  private final SparkContext context;

  InputPreparation(SettingValues settings, SparkSession session) {
    this.settings = settings;
    this.session = session;
    this.context = session.sparkContext();
  }

  /**
   * Prepares one data set.
   *
   * @param what training or evaluation, for messages
   * @param prepared what is trained on
   * @param workers the number of partitions that it must have
   * @param vector the column of vectors of which it is to be found out whether any is sparse;
   *     negative for none
   * @throws RejoinException BAD_ARGUMENT for an input that can't be used; IO when the copies can't
   *     be made
   */
  PreparedInput prepare(String what, Dataset<?> prepared, int workers, int vector) {
    StructType schema = prepared.schema();
    RowBlocks.Shape shape = new RowBlocks.Shape(schema.size(), vector);
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
    JavaRDD<byte[]> blocks = rows.toJavaRDD().mapPartitions(each -> RowBlocks.pack(each, schema));
    JavaRDD<byte[]> stored = blocks.mapPartitions(BlockCompression::compress);
    stored.setName("rejoin " + what + " input");
    switch (settings.text(SparkSettings.INPUT)) {
      case "replicate":
        return replicate(what, schema, stored, shape);
      case "checkpoint":
        return checkpoint(schema, stored, shape);
      default:
        return reread(what, schema, blocks, shape);
    }
  }

  private PreparedInput replicate(
      String what, StructType schema, JavaRDD<byte[]> stored, RowBlocks.Shape shape) {
    JavaRDD<byte[]> blocks = stored.mapPartitions(BlockCompression::decompress);
    for (int fill = 1; ; fill++) {
      // Asked again each time: executors come and go.
      int executors = executors();
      int copies = Math.max(1, Math.min((int) settings.number(SparkSettings.REPLICAS), executors));
      stored.persist(StorageLevel.apply(true, false, false, false, copies));
      int fewest = 0;
      try {
        List<PartitionRows> partitions = partitions(blocks, shape);
        fewest = fewestCopies(stored);
        if (fewest >= copies) {
          return prepared(schema, blocks, partitions, fewest - 1, () -> stored.unpersist(false));
        }
      } finally {
        // What was refused or interrupted leaves no copies behind.
        if (fewest < copies) {
          PreparedInput.uninterrupted(() -> stored.unpersist(true));
        }
      }
      if (fill == FILLS) {
        throw tooFewCopies(what, fewest, copies, executors);
      }
      LOG.warn(
          "a partition of the {} input has {} copies instead of {}; filling again",
          what,
          fewest,
          copies);
      pause(fill);
    }
  }

  private static RejoinException tooFewCopies(String what, int fewest, int copies, int executors) {
    return new RejoinException(
        RejoinException.Code.IO,
        String.format(
            Locale.ROOT,
            "a partition of the %s input has %d copies on distinct executors, expected %d (%d"
                + " executors), after %d tries; look for block replication in the executors' logs,"
                + " free disk space, or set spark.rejoin.input.replicas lower",
            what,
            fewest,
            copies,
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

  private PreparedInput checkpoint(
      StructType schema, JavaRDD<byte[]> stored, RowBlocks.Shape shape) {
    if (context.getCheckpointDir().isEmpty()) {
      throw bad(
          "spark.rejoin.input is checkpoint, but there is no checkpoint directory; call"
              + " SparkContext.setCheckpointDir with a directory that all executors reach");
    }
    // Spark computes a partition again to checkpoint it; without the copy that could be in another
    // order.
    stored.persist(StorageLevel.DISK_ONLY());
    stored.checkpoint();
    stored.count();
    stored.unpersist(true);
    JavaRDD<byte[]> blocks = stored.mapPartitions(BlockCompression::decompress);
    return prepared(schema, blocks, partitions(blocks, shape), Integer.MAX_VALUE, () -> {});
  }

  private PreparedInput reread(
      String what, StructType schema, JavaRDD<byte[]> blocks, RowBlocks.Shape shape) {
    if (shuffles(blocks.rdd(), new HashSet<>())) {
      throw bad(
          "spark.rejoin.input is reread, but a shuffle lies behind the %s input (repartition, join,"
              + " sort, or more or fewer partitions than workers): a restarted rank would read its"
              + " rows in another order. Use replicate or checkpoint, or write the data as one file"
              + " per worker",
          what);
    }
    return prepared(schema, blocks, partitions(blocks, shape), Integer.MAX_VALUE, () -> {});
  }

  private static boolean shuffles(RDD<?> rdd, Set<Integer> seen) {
    if (!seen.add(rdd.id())) {
      return false;
    }
    return ScalaCollections.rest(rdd.dependencies().iterator()).stream()
        .anyMatch(it -> it instanceof ShuffleDependency || shuffles(it.rdd(), seen));
  }

  /** What each partition's rows are, by partition. */
  private static List<PartitionRows> partitions(JavaRDD<byte[]> blocks, RowBlocks.Shape shape) {
    List<PartitionRows> partitions =
        new ArrayList<>(
            blocks
                .mapPartitionsWithIndex(
                    (partition, of) ->
                        Collections.singletonList(PartitionRows.of(partition, of, shape))
                            .iterator(),
                    true)
                .collect());
    partitions.sort(Comparator.comparingInt(PartitionRows::partition));
    return partitions;
  }

  private PreparedInput prepared(
      StructType schema,
      JavaRDD<byte[]> blocks,
      List<PartitionRows> partitions,
      int deathsSurvived,
      Runnable release) {
    List<RowFingerprint> fingerprints =
        partitions.stream().map(PartitionRows::fingerprint).collect(Collectors.toList());
    return new PreparedInput(
        new StoredRows(blocks, fingerprints),
        frame(schema, blocks),
        partitions.stream().anyMatch(PartitionRows::sparse),
        deathsSurvived,
        release);
  }

  /**
   * The stored rows as a data frame. Its method is in another class from Spark 4 on, with the same
   * name.
   */
  @SuppressWarnings("unchecked")
  private Dataset<Row> frame(StructType schema, JavaRDD<byte[]> blocks) {
    int fields = schema.size();
    RDD<InternalRow> rows = blocks.mapPartitions(each -> RowBlocks.unpack(each, fields)).rdd();
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

  /** On how many distinct executors the partition with the fewest copies is. */
  private int fewestCopies(JavaRDD<byte[]> blocks) {
    BlockManagerMaster master = SparkEnv.get().blockManager().master();
    return IntStream.range(0, blocks.getNumPartitions())
        .mapToObj(partition -> master.getLocations(new RDDBlockId(blocks.id(), partition)))
        .mapToInt(holders -> names(ScalaCollections.rest(holders.iterator()).stream()))
        .min()
        .orElse(Integer.MAX_VALUE);
  }

  /** How many executors can hold copies: in local mode the driver, else all but the driver. */
  private int executors() {
    return names(blockManagers().filter(one -> context.isLocal() || !one.isDriver()));
  }

  private static int names(Stream<BlockManagerId> all) {
    return (int) all.map(BlockManagerId::executorId).distinct().count();
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
