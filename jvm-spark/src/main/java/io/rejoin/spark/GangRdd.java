package io.rejoin.spark;

import io.rejoin.GangTask;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.Dependency;
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
  private final ArrayList<StoredRows> stored;
  private final GangTask gang;
  private final GangProgram<T> program;
  private final ArrayList<String> hosts;

  /**
   * A gang.
   *
   * @param rows what the program reads, one partition for each rank
   * @param stored the stored rows that these are made of, with what they have to be
   * @param hosts where executors are
   */
  GangRdd(
      RDD<T> rows,
      List<StoredRows> stored,
      GangTask gang,
      GangProgram<T> program,
      List<String> hosts) {
    super(rows.context(), dependencies(rows, stored), tag());
    this.rows = rows;
    this.stored = new ArrayList<>(stored);
    this.gang = gang;
    this.program = program;
    this.hosts = new ArrayList<>(hosts);
  }

  @Override
  public scala.collection.Iterator<String> compute(Partition split, TaskContext context) {
    program.run(gang, new SparkTask(context), new RankInput<>(rows, stored, split, context));
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

  private static scala.collection.immutable.List<Dependency<?>> dependencies(
      RDD<?> rows, List<StoredRows> stored) {
    List<Dependency<?>> all = new ArrayList<>();
    all.add(new OneToOneDependency<>(rows));
    stored.forEach(each -> all.add(new OneToOneDependency<>(each.blocks().rdd())));
    return ScalaCollections.list(all);
  }
}
