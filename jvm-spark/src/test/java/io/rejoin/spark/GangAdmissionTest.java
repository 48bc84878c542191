package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class GangAdmissionTest {
  private static SparkSession session;

  private final SettingValues settings = SparkSettings.of(Collections.emptyMap());

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[3]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static SparkContext context() {
    return session.sparkContext();
  }

  private static WorldBounds fixed(int workers) {
    return WorldBounds.fixed(workers, "numWorkers");
  }

  private CompletableFuture<GangAdmission.AdmittedGang> admit(int workers) {
    return CompletableFuture.supplyAsync(
        () -> GangAdmission.of(context()).admit(context(), fixed(workers), settings));
  }

  @Test
  void a_gang_that_can_never_fit_is_refused_with_both_numbers() {
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> GangAdmission.of(context()).admit(context(), fixed(4), settings));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(
        failure.text().contains("4 workers") && failure.text().contains("3 slots"), failure.text());
  }

  @Test
  void a_second_gang_waits_until_the_first_has_left() throws Exception {
    GangAdmission.AdmittedGang first =
        GangAdmission.of(context()).admit(context(), fixed(2), settings);
    CompletableFuture<GangAdmission.AdmittedGang> second = admit(2);
    awaitQueue(second);

    first.close();
    second.get(60, TimeUnit.SECONDS).close();
  }

  /** Returns when these gangs, in this order, are all that wait; none of them is admitted then. */
  @SafeVarargs
  private static void awaitQueue(CompletableFuture<GangAdmission.AdmittedGang>... waiting) {
    long begun = System.nanoTime();
    while (GangAdmission.of(context()).queued() < waiting.length) {
      for (CompletableFuture<GangAdmission.AdmittedGang> gang : waiting) {
        assertFalse(gang.isDone(), "it is admitted beside those who have all slots");
      }
      assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(60), "no fit waits");
      Thread.onSpinWait();
    }
    for (CompletableFuture<GangAdmission.AdmittedGang> gang : waiting) {
      assertFalse(gang.isDone(), "it is admitted beside those who have all slots");
    }
  }

  @Test
  void a_small_gang_that_would_fit_waits_behind_a_large_one_that_came_before_it() throws Exception {
    GangAdmission.AdmittedGang first =
        GangAdmission.of(context()).admit(context(), fixed(2), settings);
    CompletableFuture<GangAdmission.AdmittedGang> large = admit(3);
    awaitQueue(large);
    CompletableFuture<GangAdmission.AdmittedGang> small = admit(1);
    awaitQueue(large, small);

    first.close();
    GangAdmission.AdmittedGang all = large.get(60, TimeUnit.SECONDS);
    awaitQueue(small);
    all.close();
    small.get(60, TimeUnit.SECONDS).close();
  }

  @Test
  void a_gang_that_fits_beside_another_does_not_wait() throws Exception {
    try (GangAdmission.AdmittedGang two =
        GangAdmission.of(context()).admit(context(), fixed(2), settings)) {
      assertFalse(two == null);
      admit(1).get(60, TimeUnit.SECONDS).close();
    }
  }

  @Test
  void slots_are_given_back_once_however_often_they_are_closed() throws Exception {
    GangAdmission.AdmittedGang admittedGang =
        GangAdmission.of(context()).admit(context(), fixed(3), settings);
    admittedGang.close();
    admittedGang.close();
    GangAdmission.AdmittedGang all = admit(3).get(60, TimeUnit.SECONDS);
    CompletableFuture<GangAdmission.AdmittedGang> other = admit(1);
    awaitQueue(other);
    all.close();
    other.get(60, TimeUnit.SECONDS).close();
  }

  private static WorldBounds elastic(int min, int workers, int max) {
    Map<String, String> bounds =
        Map.of("spark.rejoin.workers.min", "" + min, "spark.rejoin.workers.max", "" + max);
    return WorldBounds.of(
        SparkSettings.of(bounds),
        new SparkConf(false),
        workers,
        "the number of workers",
        "spark.rejoin.members.timeout");
  }

  private GangAdmission.AdmittedGang admit(WorldBounds bounds) {
    return GangAdmission.of(context()).admit(context(), bounds, settings);
  }

  @Test
  void what_a_gang_may_grow_to_is_taken_and_given_back() throws Exception {
    CompletableFuture<GangAdmission.AdmittedGang> second;
    try (GangAdmission.AdmittedGang first = admit(elastic(1, 1, 3))) {
      assertEquals(1, first.workers());
      second = admit(1);
      second.thenAccept(GangAdmission.AdmittedGang::close);
      awaitQueue(second);
    }
    second.get(60, TimeUnit.SECONDS);
  }

  @Test
  void a_gang_begins_with_the_slots_that_there_are_if_they_are_enough() {
    try (GangAdmission.AdmittedGang small = admit(elastic(2, 5, 5))) {
      assertEquals(3, small.workers());
    }
    RejoinException failure =
        assertThrows(RejoinException.class, () -> admit(elastic(4, 5, 5)).close());
    assertTrue(
        failure.text().contains("4 workers must train at the same time (spark.rejoin.workers.min)"),
        failure.text());
  }

  /** Slots that others have come free, while those that there aren't don't come here. */
  @Test
  void a_gang_for_which_there_are_slots_waits_for_those_that_others_have() throws Exception {
    CompletableFuture<Integer> second;
    try (GangAdmission.AdmittedGang first =
        GangAdmission.of(context()).admit(context(), fixed(2), settings)) {
      assertEquals(2, first.workers());
      second =
          CompletableFuture.supplyAsync(
              () -> {
                try (GangAdmission.AdmittedGang all = admit(elastic(1, 3, 3))) {
                  return all.workers();
                }
              });
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
      while (GangAdmission.of(context()).queued() == 0 && System.nanoTime() < deadline) {
        assertFalse(second.isDone(), "it begins with fewer");
        Thread.onSpinWait();
      }
    }
    assertEquals(3, second.get(60, TimeUnit.SECONDS));
  }

  @Test
  void the_queue_has_an_end() {
    SettingValues hasty =
        SparkSettings.of(Collections.singletonMap("spark.rejoin.queue.timeout", "200ms"));
    try (GangAdmission.AdmittedGang all =
        GangAdmission.of(context()).admit(context(), fixed(3), settings)) {
      assertFalse(all == null);
      CompletableFuture<GangAdmission.AdmittedGang> late =
          CompletableFuture.supplyAsync(
              () -> GangAdmission.of(context()).admit(context(), fixed(1), hasty));
      ExecutionException failure =
          assertThrows(ExecutionException.class, () -> late.get(60, TimeUnit.SECONDS));
      assertEquals(RejoinException.Code.TIMED_OUT, ((RejoinException) failure.getCause()).code());
    }
  }
}
