package io.rejoin.it;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.RDDBlockId;

/** Where Spark has the stored rows of a training that is under way. */
final class InputCopies {
  private static final long LIMIT_SECONDS = 60;

  private InputCopies() {}

  /** The executors that have the first page of a rank's rows. */
  static Set<String> holders(SparkSession spark, int rank) {
    Set<String> holders = new TreeSet<>();
    for (Map.Entry<Integer, JavaRDD<?>> stored :
        JavaSparkContext.fromSparkContext(spark.sparkContext()).getPersistentRDDs().entrySet()) {
      if ("rejoin training input".equals(stored.getValue().name())) {
        holders.addAll(holders(new RDDBlockId(stored.getKey(), rank)));
      }
    }
    return holders;
  }

  private static Set<String> holders(RDDBlockId block) {
    Set<String> holders = new TreeSet<>();
    scala.collection.Iterator<BlockManagerId> places =
        SparkEnv.get().blockManager().master().getLocations(block).iterator();
    while (places.hasNext()) {
      holders.add(places.next().executorId());
    }
    return holders;
  }

  /**
   * The executors that have the first page of each of so many ranks, once they are as wanted for
   * each of them.
   */
  static Map<Integer, Set<String>> awaited(
      SparkSession spark, int ranks, Predicate<Set<String>> wanted) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
    Map<Integer, Set<String>> all = new TreeMap<>();
    do {
      if (System.nanoTime() > deadline) {
        throw new AssertionError("the copies aren't where they should be: " + all);
      }
      for (int rank = 0; rank < ranks; rank++) {
        all.put(rank, holders(spark, rank));
      }
    } while (!all.values().stream().allMatch(wanted));
    return all;
  }
}
