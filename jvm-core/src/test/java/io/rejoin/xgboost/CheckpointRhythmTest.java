package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
    assertEquals(1, rhythm.roundsAfter(0));
    assertEquals(1, rhythm.roundsAfter(300_000));
  }

  @Test
  void large_models_are_taken_so_rarely_that_their_cost_stays_a_small_share() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(KEEPS, 0, 20_000_000);
    assertEquals(4, rhythm.roundsAfter(1_000_000));
    assertEquals(32, rhythm.roundsAfter(1_000_000_000));
  }

  @Test
  void where_the_rhythm_is_part_of_the_result_nothing_but_settings_decides() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(RELOADS, 0, 20_000_000);
    assertEquals(rhythm.roundsAfter(0), rhythm.roundsAfter(1_000_000_000));
    assertEquals(7, CheckpointRhythm.of(RELOADS, 7, 20_000_000).roundsAfter(123));
  }

  @Test
  void a_setting_decides_everywhere() {
    assertEquals(5, CheckpointRhythm.of(KEEPS, 5, 0).roundsAfter(1_000_000_000));
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
