package io.rejoin.it.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class RoundClockTest {
  private static RoundClock clock(int rounds, long... nanos) {
    RoundClock clock = new RoundClock(rounds);
    for (int round = 0; round < nanos.length; round++) {
      clock.accept(round, nanos[round]);
    }
    return clock;
  }

  @Test
  void the_time_is_from_the_beginning_of_the_first_round_to_the_end_of_the_last() {
    RoundClock clock = clock(3, 5_000_000, 7_000_000, 8_000_000, 105_000_000);
    assertEquals(100, clock.totalMillis());
    assertEquals(2, clock.medianRoundMillis());
  }

  @Test
  void a_training_that_is_not_over_has_no_time() {
    RoundClock clock = clock(3, 5, 7, 8);
    assertTrue(
        assertThrows(IllegalStateException.class, clock::totalMillis)
            .getMessage()
            .contains("expected all of 3 rounds, saw 0 to 2"));
    assertThrows(IllegalStateException.class, clock::medianRoundMillis);
    assertThrows(IllegalStateException.class, new RoundClock(3)::totalMillis);
  }

  @Test
  void a_round_that_is_told_twice_left_out_or_too_many_is_refused() {
    assertThrows(IllegalStateException.class, () -> clock(3, 5, 7).accept(1, 9));
    assertThrows(IllegalStateException.class, () -> clock(3, 5, 7).accept(3, 9));
    assertThrows(IllegalStateException.class, () -> clock(1, 5, 7, 9));
  }

  @Test
  void a_restarted_rank_begins_where_it_goes_on_and_has_no_time_of_the_whole() {
    RoundClock clock = new RoundClock(3);
    clock.accept(2, 5);
    clock.accept(3, 6);
    assertThrows(IllegalStateException.class, clock::totalMillis);
  }
}
