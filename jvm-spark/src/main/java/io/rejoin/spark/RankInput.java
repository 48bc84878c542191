package io.rejoin.spark;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;

/**
 * What a rank reads in its task, as often as it likes: the same rows in the same order each time.
 * What is stored is verified before the first of them is given.
 */
final class RankInput<T> implements Iterable<T> {
  private final RDD<T> rows;
  private final List<StoredRows> stored;
  private final Partition split;
  private final TaskContext context;
  private boolean isVerified;

  RankInput(RDD<T> rows, List<StoredRows> stored, Partition split, TaskContext context) {
    this.rows = rows;
    this.stored = stored;
    this.split = split;
    this.context = context;
  }

  /**
   * Reads the rows from the first one on.
   *
   * @throws io.rejoin.RejoinException MISMATCH when they aren't those that were stored
   */
  @Override
  public Iterator<T> iterator() {
    if (!isVerified) {
      stored.forEach(each -> each.verify(split, context));
      isVerified = true;
    }
    return ScalaCollections.iterator(rows.iterator(split, context));
  }
}
