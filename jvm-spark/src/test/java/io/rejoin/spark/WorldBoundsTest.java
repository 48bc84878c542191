package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.Test;

class WorldBoundsTest {
  private static WorldBounds of(SparkConf conf, String... settings) {
    Map<String, String> map = new HashMap<>();
    for (int i = 0; i < settings.length; i += 2) {
      map.put("spark.rejoin." + settings[i], settings[i + 1]);
    }
    return WorldBounds.of(
        SparkSettings.of(map), conf, 4, "numWorkers", "spark.rejoin.members.timeout");
  }

  private static WorldBounds of(String... settings) {
    return of(new SparkConf(false), settings);
  }

  private static String refused(String... settings) {
    RejoinException failure = assertThrows(RejoinException.class, () -> of(settings));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    return failure.text();
  }

  private static SparkConf dynamic(String min, String max) {
    return new SparkConf(false)
        .set("spark.dynamicAllocation.enabled", "true")
        .set("spark.dynamicAllocation.minExecutors", min)
        .set("spark.dynamicAllocation.maxExecutors", max)
        .set("spark.executor.cores", "4")
        .set("spark.task.cpus", "2");
  }

  @Test
  void nothing_changes_unless_a_bound_is_set() {
    WorldBounds fixed = of(dynamic("1", "10"));
    assertFalse(fixed.isElastic());
    assertEquals(4, fixed.min());
    assertEquals(4, fixed.max());
  }

  @Test
  void without_dynamic_allocation_the_other_bound_is_the_number_of_workers() {
    assertEquals(4, of("workers.min", "2").max());
    assertEquals(2, of("workers.min", "2").min());
    assertEquals(4, of("workers.max", "6").min());
    assertEquals(6, of("workers.max", "6").max());
    assertTrue(of("workers.min", "4").isElastic());
  }

  @Test
  void with_it_the_other_bound_is_what_its_executors_have_slots_for() {
    assertEquals(20, of(dynamic("1", "10"), "workers.min", "3").max());
    assertEquals(2, of(dynamic("1", "10"), "workers.max", "6").min());
    // Never what the number of workers would have to be outside of.
    assertEquals(4, of(dynamic("1", "1"), "workers.min", "3").max());
    assertEquals(4, of(dynamic("9", "10"), "workers.max", "6").min());
    assertEquals(1, of(dynamic("0", "10"), "workers.max", "6").min());
    assertEquals(4, of(dynamic("0", "2147483647"), "workers.min", "3").max());
  }

  @Test
  void bounds_that_can_not_be_are_refused_by_their_names() {
    String tooMany = refused("workers.min", "5");
    assertTrue(tooMany.contains("spark.rejoin.workers.min is 5, but numWorkers is 4"), tooMany);
    String tooFew = refused("workers.max", "3");
    assertTrue(tooFew.contains("spark.rejoin.workers.max is 3, but numWorkers is 4"), tooFew);
    String tooLong = refused("workers.min", "2", "elastic.timeout", "10min");
    assertTrue(
        tooLong.contains("spark.rejoin.elastic.timeout is 600000 ms")
            && tooLong.contains("spark.rejoin.members.timeout (600000 ms)"),
        tooLong);
    String tooShort = refused("workers.min", "2", "elastic.timeout", "100ms");
    assertTrue(tooShort.contains("spark.rejoin.heartbeat (200 ms)"), tooShort);
  }

  @Test
  void what_does_not_go_together_is_refused_with_both_names() {
    for (String[] other : new String[][] {{"spares", "1"}, {"durable", "hdfs:/x"}}) {
      String text = refused("workers.max", "5", other[0], other[1]);
      assertTrue(
          text.contains("spark.rejoin.workers.max") && text.contains("spark.rejoin." + other[0]),
          text);
    }
  }
}
