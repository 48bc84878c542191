package io.rejoin.spark;

import io.rejoin.GangTask;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The gang: one partition per rank. An RDD of its own and not a function over one, because after a
 * rollback a rank reads its partition again within the same task. Has no rows; the result goes to
 * the tracker.
 */
final class GangRdd<T> extends RDD<String> {
  private static final long serialVersionUID = 1L;

  private final RDD<T> rows;
  private final GangTask gang;
  private final GangProgram<T> program;
  private final ArrayList<String> hosts;

  /**
   * A gang.
   *
   * @param rows what the program reads, one partition for each rank
   * @param hosts where executors are
   */
  GangRdd(RDD<T> rows, GangTask gang, GangProgram<T> program, List<String> hosts) {
    super(
        rows.context(),
        ScalaCollections.list(Collections.singletonList(new OneToOneDependency<>(rows))),
        tag());
    this.rows = rows;
    this.gang = gang;
    this.program = program;
    this.hosts = new ArrayList<>(hosts);
  }

  @Override
  public scala.collection.Iterator<String> compute(Partition split, TaskContext context) {
    program.run(gang, new SparkTask(context), new RankInput<>(rows, split, context));
    return ScalaCollections.empty();
  }

  @Override
  public Partition[] getPartitions() {
    return rows.partitions();
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
}
