package io.rejoin.spark;

import java.util.Iterator;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;

/**
 * What a rank reads in its task, as often as it likes: the same rows in the same order each time,
 * verified as they are read.
 */
final class RankInput<T> implements Iterable<T> {
  private final RDD<T> rows;
  private final Partition split;
  private final TaskContext context;

  RankInput(RDD<T> rows, Partition split, TaskContext context) {
    this.rows = rows;
    this.split = split;
    this.context = context;
  }

  /**
   * Reads the rows from the first one on. The iterator throws INPUT_LOST or MISMATCH when they
   * aren't those that were stored.
   */
  @Override
  public Iterator<T> iterator() {
    return ScalaCollections.iterator(rows.iterator(split, context));
  }
}
