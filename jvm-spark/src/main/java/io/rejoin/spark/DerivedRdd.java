package io.rejoin.spark;

import java.io.Serializable;
import java.util.ArrayList;
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
  static final class Split implements Partition {
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
