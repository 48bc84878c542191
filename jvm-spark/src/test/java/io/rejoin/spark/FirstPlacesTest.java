package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.apache.spark.storage.BlockManagerId;
import org.junit.jupiter.api.Test;
import scala.Option;

class FirstPlacesTest {
  private static final List<String> HOSTS = List.of("a", "b");

  private static BlockManagerId executor(String id, String host) {
    return BlockManagerId.apply(id, host, 7000, Option.empty());
  }

  private static List<List<String>> of(int slots, List<List<BlockManagerId>> holders) {
    return FirstPlaces.of(holders, HOSTS, slots);
  }

  @Test
  void a_rank_begins_where_its_pages_are_and_may_begin_anywhere() {
    assertEquals(
        List.of(List.of("executor_a_1", "a", "b"), List.of("executor_b_2", "a", "b")),
        of(1, List.of(List.of(executor("1", "a")), List.of(executor("2", "b")))));
  }

  @Test
  void no_executor_is_wanted_by_more_ranks_than_it_has_slots() {
    BlockManagerId one = executor("1", "a");
    BlockManagerId two = executor("2", "b");
    assertEquals(
        List.of(List.of("executor_a_1", "a", "b"), List.of("executor_b_2", "a", "b"), HOSTS),
        of(1, List.of(List.of(one), List.of(one, two), List.of(one, two))));
    assertEquals(
        List.of(List.of("executor_a_1", "a", "b"), List.of("executor_a_1", "a", "b"), HOSTS),
        of(2, List.of(List.of(one), List.of(one), List.of(one))));
  }

  @Test
  void where_other_gangs_hold_slots_or_no_executor_has_pages_none_is_preferred() {
    assertEquals(List.of(HOSTS), of(0, List.of(List.of(executor("1", "a")))));
    assertEquals(List.of(HOSTS), of(1, List.of(List.of())));
  }
}
