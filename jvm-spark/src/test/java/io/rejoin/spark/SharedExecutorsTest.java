package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Set;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.Test;

class SharedExecutorsTest {
  @Test
  void a_slot_that_a_rank_of_one_gang_is_on_its_way_to_is_free_for_no_other_gang() {
    SharedExecutors executors = new SharedExecutors();
    Object one = new Object();
    Object other = new Object();
    executors.claim(one, 1);
    assertEquals(0, executors.claimedByOthers(one));
    assertEquals(1, executors.claimedByOthers(other));
    executors.claim(one, 0);
    assertEquals(0, executors.claimedByOthers(other));
  }

  @Test
  void an_executor_that_several_gangs_have_tasks_on_is_replaced_once_and_all_of_them_are() {
    SharedExecutors executors = new SharedExecutors();
    Object one = new Object();
    Object other = new Object();
    assertEquals(1, executors.leaving(one, Set.of("3")));
    assertEquals(1, executors.leaving(other, Set.of("3")));
    assertEquals(2, executors.leaving(other, Set.of("3", "5")));
    assertEquals(2, executors.leaving(one, Set.of()));
    assertEquals(0, executors.leaving(other, Set.of()));
  }

  @Test
  void no_more_executors_are_asked_for_than_dynamic_allocation_may_have() {
    SparkConf conf = new SparkConf(false);
    assertEquals(3, SharedExecutors.allowed(conf, 3, 1, 12));
    conf.set("spark.dynamicAllocation.maxExecutors", "5");
    assertEquals(3, SharedExecutors.allowed(conf, 3, 1, 0));
    assertEquals(1, SharedExecutors.allowed(conf, 3, 1, 3));
    assertEquals(0, SharedExecutors.allowed(conf, 3, 1, 4));
    assertEquals(0, SharedExecutors.allowed(conf, 3, 7, 0));
  }
}
