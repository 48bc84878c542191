package io.rejoin.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.storage.BlockManagerId;

/**
 * Where the tasks of a gang are tried first. A rank begins where its pages are, if an executor that
 * has them has a slot for it; every other executor will do as well.
 *
 * <p>Each task names all hosts besides, so that it never waits for one of them ({@code
 * spark.locality.wait}, 3 s for each level). An executor is named by no more tasks than it has
 * slots: one that names an executor whose slots others have taken would wait. For a retry the
 * executor of the first try is dead, or has a slot again, and a stage that has run for 3 s waits
 * for no place any more.
 */
final class FirstPlaces {
  private FirstPlaces() {}

  /**
   * For each partition, in Spark's words for places.
   *
   * @param holders for each partition the executors that have its pages
   * @param hosts of all executors
   * @param slots how many tasks of the gang an executor can run at once; 0 to prefer none
   */
  static List<List<String>> of(List<List<BlockManagerId>> holders, List<String> hosts, int slots) {
    Map<BlockManagerId, Integer> taken = new HashMap<>();
    List<List<String>> places = new ArrayList<>();
    for (List<BlockManagerId> partition : holders) {
      List<String> own = new ArrayList<>();
      partition.stream()
          .filter(holder -> taken.getOrDefault(holder, 0) < slots)
          .findFirst()
          .ifPresent(
              holder -> {
                taken.merge(holder, 1, Integer::sum);
                own.add("executor_" + holder.host() + "_" + holder.executorId());
              });
      own.addAll(hosts);
      places.add(own);
    }
    return places;
  }
}
