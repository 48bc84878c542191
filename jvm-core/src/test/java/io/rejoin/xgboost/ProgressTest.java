package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import org.junit.jupiter.api.Test;

class ProgressTest {
  private static final String[] NAMES = {"train", "eval"};

  private static Progress smallerIsBetter(float... scores) {
    Progress progress = new Progress(NAMES, 10);
    progress.direction(false);
    for (float score : scores) {
      progress.note(new float[] {0, score});
    }
    return progress;
  }

  @Test
  void the_last_matrix_decides_and_only_a_strict_improvement_counts() {
    Progress progress = smallerIsBetter(3, 2, 2, 2.5f);

    assertEquals(1, progress.best());
    assertEquals(2, progress.bestScore());
    assertEquals(4, progress.round());
  }

  @Test
  void it_stops_after_as_many_rounds_without_improvement_as_allowed() {
    assertFalse(smallerIsBetter(3, 2, 2).shouldStop(2));
    assertTrue(smallerIsBetter(3, 2, 2, 2).shouldStop(2));
    assertFalse(smallerIsBetter(3, 2, 2, 2).shouldStop(0));
  }

  @Test
  void larger_may_be_better() {
    Progress progress = new Progress(NAMES, 10);
    progress.direction(true);
    assertTrue(progress.note(new float[] {0, 0.5f}));
    assertFalse(progress.note(new float[] {0, 0.4f}));
    assertTrue(progress.note(new float[] {0, 0.6f}));
    assertEquals(2, progress.best());
  }

  @Test
  void it_goes_on_after_being_written_and_read_as_if_nothing_had_been() {
    Progress there = smallerIsBetter(3, 2, 2.5f);
    Progress back = Progress.of(there.toBytes(), NAMES, 10);
    there.note(new float[] {7, 1});
    back.note(new float[] {7, 1});

    assertArrayEquals(there.toBytes(), back.toBytes());
    assertArrayEquals(there.metrics().get("eval"), back.metrics().get("eval"));
    assertArrayEquals(NAMES, Progress.names(back.toBytes()));
  }

  @Test
  void scores_are_as_long_as_the_rounds_wanted_with_zeros_after_a_stop() {
    assertArrayEquals(
        new float[] {3, 2, 0, 0, 0, 0, 0, 0, 0, 0}, smallerIsBetter(3, 2).metrics().get("eval"));
  }

  @Test
  void a_round_of_no_numbers_is_never_the_best() {
    assertFalse(smallerIsBetter(Float.NaN, Float.NaN).hasBest());
    assertFalse(new Progress(NAMES, 10).hasBest());
    assertTrue(smallerIsBetter(Float.NaN, 1).hasBest());
  }

  @Test
  void bytes_of_something_else_are_refused() {
    byte[] bytes = smallerIsBetter(3).toBytes();
    bytes[0]++;
    RejoinException failure =
        assertThrows(RejoinException.class, () -> Progress.of(bytes, NAMES, 10));
    assertEquals(RejoinException.Code.INCOMPATIBLE, failure.code());
    assertThrows(
        RejoinException.class,
        () -> Progress.of(smallerIsBetter(3).toBytes(), new String[] {"train", "test"}, 10));
    assertThrows(RejoinException.class, () -> Progress.of(new byte[3], NAMES, 10));
  }
}
