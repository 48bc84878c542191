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
 * rank that it is given. Where the world may change it has as many as there may be ranks, and a
 * task reads its rank's share of all rows, anew in each world. An RDD of its own and not a function
 * over one, because after a rollback a rank reads its partition again within the same task. Its
 * rows are for a process beside the task, if the program has one; the result goes to the tracker.
 */
final class GangRdd<T> extends RDD<byte[]> {
  private static final long serialVersionUID = 1L;

  private final RDD<T> rows;

  /**
   * The partitions of the rows; empty in a gang whose tasks have ranks of their own, and get theirs
   * from Spark.
   */
  private final Partition[] splits;

  private final GangTask gang;
  private final GangProgram<T> program;
  private final ArrayList<List<String>> places;
  private final int tasks;

  /**
   * A gang.
   *
   * @param rows what the program reads, one partition for each rank of a fixed world; a share
   *     ({@link DerivedRdd.Share}) takes their place in another one
   * @param places where each task is tried first; of one that isn't among them nothing is known
   * @param tasks how many there are, if they ask for ranks; 0 if each has its own
   */
  GangRdd(
      RDD<T> rows, GangTask gang, GangProgram<T> program, List<List<String>> places, int tasks) {
    super(
        rows.context(),
        ScalaCollections.list(Collections.singletonList(new OwnPartition<>(rows))),
        tag());
    this.rows = rows;
    this.tasks = tasks;
    this.splits = tasks == 0 ? new Partition[0] : rows.partitions();
    this.gang = gang;
    this.program = program;
    this.places = new ArrayList<>(places);
  }

  @Override
  public scala.collection.Iterator<byte[]> compute(Partition split, TaskContext context) {
    return ScalaCollections.scala(
        program.run(gang, new SparkTask(context), new Inputs<>(rows, split, splits, context)));
  }

  @Override
  public Partition[] getPartitions() {
    return tasks == 0
        ? rows.partitions()
        : IntStream.range(0, tasks).mapToObj(Member::new).toArray(Partition[]::new);
  }

  /** By {@link FirstPlaces}. */
  @Override
  public scala.collection.immutable.List<String> getPreferredLocations(Partition split) {
    return ScalaCollections.list(
        split.index() < places.size() ? places.get(split.index()) : Collections.emptyList());
  }

  private static ClassTag<byte[]> tag() {
    return ClassTag$.MODULE$.apply(byte[].class);
  }

  /** Of one task. */
  private static final class Inputs<T> implements RankInputs<T> {
    private final RDD<T> rows;
    private final Partition own;
    private final Partition[] all;
    private final TaskContext context;

    Inputs(RDD<T> rows, Partition own, Partition[] all, TaskContext context) {
      this.rows = rows;
      this.own = own;
      this.all = all;
      this.context = context;
    }

    @Override
    public RankInput<T> of(int rank) {
      return new RankInput<>(rows, all.length == 0 ? own : all[rank], context);
    }

    @Override
    public RankInput<T> of(int rank, int world) {
      return all.length == 0 || world == all.length
          ? of(rank)
          : new RankInput<>(rows, new DerivedRdd.Share(rank, world, all), context);
    }
  }

  /** A task that asks for its rank, by its number. */
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

  /** A task may read the partition of its number; which one another task will read is open. */
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
