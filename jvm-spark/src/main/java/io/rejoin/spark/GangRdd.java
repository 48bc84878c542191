package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import io.rejoin.xgboost.Matrices;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.scala.spark.Watches;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The gang: one partition per rank. An RDD of its own and not a function over one, because after a
 * rollback a rank reads its partition again within the same task. Has no rows; the result goes to
 * the tracker.
 */
final class GangRdd extends RDD<String> {
  private static final long serialVersionUID = 1L;

  private final RDD<Watches> watches;
  private final ArrayList<Stored> stored;
  private final SparkTask task;
  private final ArrayList<String> hosts;

  /**
   * A gang.
   *
   * @param watches the matrices of each partition
   * @param inputs the rows that the matrices are made of, with what they have to be
   * @param hosts where executors are
   */
  GangRdd(RDD<Watches> watches, List<PreparedInput> inputs, SparkTask task, List<String> hosts) {
    super(watches.context(), dependencies(watches, inputs), tag());
    this.watches = watches;
    this.task = task;
    this.hosts = new ArrayList<>(hosts);
    this.stored = new ArrayList<>();
    for (PreparedInput input : inputs) {
      stored.add(new Stored(input.blocks(), new ArrayList<>(input.fingerprints())));
    }
  }

  @Override
  public scala.collection.Iterator<String> compute(Partition split, TaskContext context) {
    Source source = new Source(split, context);
    task.run(context, source);
    return ScalaCollections.empty();
  }

  @Override
  public Partition[] getPartitions() {
    return watches.partitions();
  }

  /**
   * Any executor will do. Without this Spark would prefer the holders of the copies, whose slots
   * the gang itself has taken, and let a retry wait for them (spark.locality.wait, 3 s for each
   * level).
   */
  @Override
  public scala.collection.immutable.List<String> getPreferredLocations(Partition split) {
    return ScalaCollections.list(hosts);
  }

  private static ClassTag<String> tag() {
    return ClassTag$.MODULE$.apply(String.class);
  }

  private static scala.collection.immutable.List<Dependency<?>> dependencies(
      RDD<Watches> watches, List<PreparedInput> inputs) {
    List<Dependency<?>> all = new ArrayList<>();
    all.add(new OneToOneDependency<>(watches));
    inputs.forEach(input -> all.add(new OneToOneDependency<>(input.blocks().rdd())));
    return ScalaCollections.list(all);
  }

  /** Stored rows, and the fingerprint that they have to have when they are read. */
  private static final class Stored implements java.io.Serializable {
    private static final long serialVersionUID = 1L;

    private final JavaRDD<byte[]> blocks;
    private final ArrayList<RowFingerprint> fingerprints;

    Stored(JavaRDD<byte[]> blocks, ArrayList<RowFingerprint> fingerprints) {
      this.blocks = blocks;
      this.fingerprints = fingerprints;
    }

    /** Reads the partition once, before anything is made of it. */
    void verify(Partition split, TaskContext context) {
      int rank = split.index();
      RowBlocks.Shape any = new RowBlocks.Shape(0, -1);
      RowFingerprint expected = fingerprints.get(rank);
      RowFingerprint seen =
          PartitionRows.of(rank, blocks.iterator(split, context), any).fingerprint();
      if (!seen.equals(expected)) {
        throw expected.isNot(
            seen,
            rank,
            "All copies of its partition were lost, and computing it again gave other rows or"
                + " another order; set spark.rejoin.input.replicas higher, or spark.rejoin.input"
                + " to checkpoint");
      }
    }
  }

  /** Opens the matrices of a partition, as often as asked. */
  private final class Source implements Matrices.Source {
    private final Partition split;
    private final TaskContext context;
    private boolean verified;

    Source(Partition split, TaskContext context) {
      this.split = split;
      this.context = context;
    }

    @Override
    public Matrices open() {
      if (!verified) {
        stored.forEach(input -> input.verify(split, context));
        verified = true;
      }
      scala.collection.Iterator<Watches> iterator = watches.iterator(split, context);
      if (!iterator.hasNext()) {
        throw new RejoinException(
            RejoinException.Code.TRAINING_FAILED,
            "the partition of rank " + split.index() + " has no rows");
      }
      return new Opened(iterator.next(), stored.size());
    }
  }

  /** Matrices that belong to the stock class, which frees them. */
  private static final class Opened implements Matrices {
    private final Watches watches;
    private final LinkedHashMap<String, DMatrix> byName = new LinkedHashMap<>();

    Opened(Watches watches, int expected) {
      this.watches = watches;
      ScalaCollections.rest(watches.toMap().iterator())
          .forEach(entry -> byName.put(entry._1(), entry._2().jDMatrix()));
      if (byName.size() != expected) {
        // The stock class leaves out empty ones, and the rank would make fewer collectives than the
        // others.
        watches.delete();
        throw new RejoinException(
            RejoinException.Code.TRAINING_FAILED,
            "expected "
                + expected
                + " matrices with rows, but only these have any: "
                + byName.keySet());
      }
    }

    @Override
    public Map<String, DMatrix> byName() {
      return Collections.unmodifiableMap(byName);
    }

    @Override
    public void close() {
      watches.delete();
    }
  }
}
