package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

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

  private CompletableFuture<GangAdmission.Seats> admit(int workers) {
    return CompletableFuture.supplyAsync(
        () -> GangAdmission.of(context()).admit(context(), workers, settings));
  }

  @Test
  void a_gang_that_can_never_fit_is_refused_with_both_numbers() {
    RejoinException failure =
        assertThrows(
            RejoinException.class, () -> GangAdmission.of(context()).admit(context(), 4, settings));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(
        failure.text().contains("4 workers") && failure.text().contains("3 slots"), failure.text());
  }

  @Test
  void a_second_gang_waits_until_the_first_has_left() throws Exception {
    GangAdmission.Seats first = GangAdmission.of(context()).admit(context(), 2, settings);
    CompletableFuture<GangAdmission.Seats> second = admit(2);
    assertThrows(
        java.util.concurrent.TimeoutException.class, () -> second.get(300, TimeUnit.MILLISECONDS));

    first.close();
    second.get(10, TimeUnit.SECONDS).close();
  }

  @Test
  void a_gang_that_fits_beside_another_does_not_wait() throws Exception {
    try (GangAdmission.Seats two = GangAdmission.of(context()).admit(context(), 2, settings)) {
      assertFalse(two == null);
      admit(1).get(10, TimeUnit.SECONDS).close();
    }
  }

  @Test
  void seats_are_given_back_once_however_often_they_are_closed() throws Exception {
    GangAdmission.Seats seats = GangAdmission.of(context()).admit(context(), 3, settings);
    seats.close();
    seats.close();
    GangAdmission.Seats all = admit(3).get(10, TimeUnit.SECONDS);
    CompletableFuture<GangAdmission.Seats> other = admit(1);
    assertThrows(
        java.util.concurrent.TimeoutException.class, () -> other.get(300, TimeUnit.MILLISECONDS));
    all.close();
    other.get(10, TimeUnit.SECONDS).close();
  }

  @Test
  void the_queue_has_an_end() {
    SettingValues hasty =
        SparkSettings.of(Collections.singletonMap("spark.rejoin.queue.timeout", "200ms"));
    try (GangAdmission.Seats all = GangAdmission.of(context()).admit(context(), 3, settings)) {
      assertFalse(all == null);
      CompletableFuture<GangAdmission.Seats> late =
          CompletableFuture.supplyAsync(
              () -> GangAdmission.of(context()).admit(context(), 1, hasty));
      ExecutionException failure =
          assertThrows(ExecutionException.class, () -> late.get(10, TimeUnit.SECONDS));
      assertEquals(RejoinException.Code.TIMED_OUT, ((RejoinException) failure.getCause()).code());
    }
  }
}
