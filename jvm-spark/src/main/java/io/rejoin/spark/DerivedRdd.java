package io.rejoin.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import scala.reflect.ClassTag$;

/**
 * An RDD whose partitions are made of those of the same number of its parents, and that asks a
 * parent for its partition only when the function does: what is stored is read without touching the
 * shuffle behind it.
 */
final class DerivedRdd<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  /** Makes a partition. */
  @FunctionalInterface
  interface Compute<T> extends Serializable {
    /** In a task; {@code split} has the parents' partitions. */
    Iterator<T> partition(Split split, TaskContext context);
  }

  /** A partition's number, and its parents' partitions. */
  static class Split implements Partition {
    private static final long serialVersionUID = 1L;

    private final int index;
    private final Partition[] parents;

    Split(int index, Partition[] parents) {
      this.index = index;
      this.parents = parents;
    }

    @Override
    public int index() {
      return index;
    }

    /** A parent's partition. */
    Partition of(int parent) {
      return parents[parent];
    }
  }

  /**
   * What a rank of a world reads where that is no partition, in place of one: a task hands it to
   * the RDD's iterator, and every RDD on the way to the stored pages passes on what it is given,
   * or, if it is one of these here, the share of its parent. Spark knows nothing of it: it isn't
   * among the RDD's partitions.
   */
  static final class Share extends Split {
    private static final long serialVersionUID = 1L;

    private final int world;
    private final Partition[] all;

    /**
     * A rank's share.
     *
     * @param all the RDD's partitions
     */
    Share(int rank, int world, Partition[] all) {
      super(rank, new Partition[0]);
      this.world = world;
      this.all = all;
    }

    int rank() {
      return index();
    }

    int world() {
      return world;
    }

    /** One of the RDD's partitions. */
    Split partition(int number) {
      return (Split) all[number];
    }

    @Override
    Partition of(int parent) {
      return new Share(
          rank(),
          world,
          Arrays.stream(all).map(each -> ((Split) each).of(parent)).toArray(Partition[]::new));
    }
  }

  private final ArrayList<RDD<?>> parents;
  private final Compute<T> compute;

  DerivedRdd(Class<T> type, List<? extends RDD<?>> parents, Compute<T> compute) {
    super(
        parents.get(0).context(),
        ScalaCollections.list(
            parents.stream().map(OneToOneDependency::new).collect(Collectors.toList())),
        ClassTag$.MODULE$.apply(type));
    this.parents = new ArrayList<>(parents);
    this.compute = compute;
  }

  @Override
  public Partition[] getPartitions() {
    Partition[] all = new Partition[parents.get(0).getNumPartitions()];
    for (int index = 0; index < all.length; index++) {
      int number = index;
      all[index] =
          new Split(
              index,
              parents.stream().map(each -> each.partitions()[number]).toArray(Partition[]::new));
    }
    return all;
  }

  @Override
  public scala.collection.Iterator<T> compute(Partition split, TaskContext context) {
    return ScalaCollections.scala(compute.partition((Split) split, context));
  }
}
