package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import org.junit.jupiter.api.Test;

class CheckpointRhythmTest {
  private static final XgboostVersion KEEPS = XgboostVersion.of("3.4.0");
  private static final XgboostVersion RELOADS = XgboostVersion.of("3.2.0");

  @Test
  void small_models_are_taken_after_every_round() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 20_000_000);
    assertEquals(1, rhythm.roundsAfter(0, 0));
    assertEquals(1, rhythm.roundsAfter(300_000, 0));
  }

  @Test
  void large_models_are_taken_so_rarely_that_their_cost_stays_a_small_share() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 20_000_000);
    assertEquals(4, rhythm.roundsAfter(1_000_000, 0));
    assertEquals(128, rhythm.roundsAfter(1_000_000_000, 0));
  }

  @Test
  void however_small_the_input_is_a_round_counts_for_something_but_not_for_much() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 0);
    assertEquals(1, rhythm.roundsAfter(4_000, 0));
    assertEquals(22, rhythm.roundsAfter(100_000, 0));
  }

  @Test
  void an_input_of_any_length_that_can_be_gives_a_rhythm() {
    assertEquals(1, CheckpointRhythm.of(KEEPS, 0, Long.MAX_VALUE).roundsAfter(1_000_000_000, 0));
    assertThrows(RejoinException.class, () -> CheckpointRhythm.of(KEEPS, 0, -1));
  }

  @Test
  void two_intervals_logs_fit_into_their_memory_once_it_is_known_what_a_round_logs() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 20_000_000).withLogs(100_000_000, 1);
    assertEquals(128, rhythm.roundsAfter(1_000_000_000, 0));
    assertEquals(5, rhythm.roundsAfter(1_000_000_000, 10_000_000));
    assertEquals(4, rhythm.roundsAfter(1_000_000, 10_000_000), "the model decides");
    assertEquals(1, rhythm.roundsAfter(1_000_000_000, 70_000_000), "a round is the least");
  }

  @Test
  void what_a_round_logs_is_asked_for_only_where_it_can_change_the_interval() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 20_000_000);
    assertFalse(rhythm.asksForLogged(1_000_000_000, 0));
    assertTrue(rhythm.withLogs(1, 1).asksForLogged(1_000_000_000, 0));
    assertFalse(rhythm.withLogs(1, 1).asksForLogged(300_000, 0));
    assertFalse(CheckpointRhythm.of(KEEPS, 5, 0).withLogs(1, 1).asksForLogged(1_000_000_000, 0));
    assertFalse(CheckpointRhythm.of(RELOADS, 0, 0).withLogs(1, 1).asksForLogged(1_000_000_000, 0));
  }

  @Test
  void an_agent_logs_results_once_and_what_goes_through_the_bridge_for_each_of_its_ranks() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 0).withLogs(100_000_000, 4);
    assertEquals(4 * 1_000 + 50, rhythm.logged(1_000, 50));
  }

  @Test
  void the_ranks_agree_anew_only_where_what_they_know_leaves_little_room() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 20_000_000).withLogs(80_000_000, 1);
    assertEquals(4, rhythm.roundsAfter(1_000_000, 0));
    assertTrue(rhythm.asksForLogged(1_000_000, 0), "nothing is known");
    assertFalse(rhythm.asksForLogged(1_000_000, 2_500_000), "four times as much would fit");
    assertTrue(rhythm.asksForLogged(1_000_000, 2_500_001));
  }

  @Test
  void where_the_rhythm_is_part_of_the_result_nothing_but_settings_decides() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(RELOADS, 0, 20_000_000);
    assertEquals(rhythm.roundsAfter(0, 0), rhythm.roundsAfter(1_000_000_000, 0));
    assertEquals(7, CheckpointRhythm.of(RELOADS, 7, 20_000_000).roundsAfter(123, 0));
  }

  @Test
  void a_setting_decides_everywhere() {
    assertEquals(5, CheckpointRhythm.of(KEEPS, 5, 0).roundsAfter(1_000_000_000, 0));
    assertThrows(RejoinException.class, () -> CheckpointRhythm.of(KEEPS, -1, 0));
  }

  @Test
  void different_rhythms_give_different_terms() {
    assertTrue(
        !CheckpointRhythm.of(KEEPS, 5, 0)
            .toString()
            .equals(CheckpointRhythm.of(KEEPS, 0, 0).toString()));
  }
}
