package io.rejoin.spark;

import io.rejoin.GangTask;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The gang: one partition per rank, and one for each spare, whose task reads the partition of the
 * rank that it is given. An RDD of its own and not a function over one, because after a rollback a
 * rank reads its partition again within the same task. Its rows are for a process beside the task,
 * if the program has one; the result goes to the tracker.
 */
final class GangRdd<T> extends RDD<byte[]> {
  private static final long serialVersionUID = 1L;

  private final RDD<T> rows;

  /** What each rank reads; empty in a gang without spares, whose tasks get their own from Spark. */
  private final Partition[] splits;

  private final GangTask gang;
  private final GangProgram<T> program;
  private final ArrayList<String> hosts;
  private final int spares;

  /**
   * A gang.
   *
   * @param rows what the program reads, one partition for each rank
   * @param hosts where executors are
   * @param spares so many tasks more than ranks
   */
  GangRdd(RDD<T> rows, GangTask gang, GangProgram<T> program, List<String> hosts, int spares) {
    super(
        rows.context(),
        ScalaCollections.list(Collections.singletonList(new OwnPartition<>(rows))),
        tag());
    this.rows = rows;
    this.spares = spares;
    this.splits = spares == 0 ? new Partition[0] : rows.partitions();
    this.gang = gang;
    this.program = program;
    this.hosts = new ArrayList<>(hosts);
  }

  @Override
  public scala.collection.Iterator<byte[]> compute(Partition split, TaskContext context) {
    return ScalaCollections.scala(
        program.run(
            gang,
            new SparkTask(context),
            rank -> new RankInput<>(rows, spares == 0 ? split : splits[rank], context)));
  }

  @Override
  public Partition[] getPartitions() {
    return spares == 0
        ? rows.partitions()
        : IntStream.range(0, splits.length + spares)
            .mapToObj(Member::new)
            .toArray(Partition[]::new);
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

  private static ClassTag<byte[]> tag() {
    return ClassTag$.MODULE$.apply(byte[].class);
  }

  /** A task of a gang with spares, by its number. */
  private static final class Member implements Partition {
    private static final long serialVersionUID = 1L;

    private final int index;

    Member(int index) {
      this.index = index;
    }

    @Override
    public int index() {
      return index;
    }

    @Override
    public int hashCode() {
      return index;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Member && ((Member) other).index == index;
    }
  }

  /** Each rank's own task has its partition for a parent; which one a spare will read is open. */
  private static final class OwnPartition<T> extends NarrowDependency<T> {
    private static final long serialVersionUID = 1L;

    private final int ranks;

    OwnPartition(RDD<T> rows) {
      super(rows);
      this.ranks = rows.getNumPartitions();
    }

    @Override
    public scala.collection.immutable.List<Object> getParents(int partition) {
      return ScalaCollections.list(
          partition < ranks ? Collections.singletonList(partition) : Collections.emptyList());
    }
  }
}
