package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class JobProgressTest {
  private static final JobProgress HALF = new JobProgress("3f2a1b2c", 50, 100, 3, 3, 0, "");

  @Test
  void rounds_fill_a_bar_and_ranks_stand_beside_it() {
    assertEquals(
        "[Job 3f2a1b2c:=================>                 50/100 rounds, 3/3 ranks]",
        JobProgress.line(List.of(HALF), 74));
    assertEquals(
        "[Job 3f2a1b2c:>        0/100 rounds, 0/3 ranks]",
        JobProgress.line(List.of(new JobProgress("3f2a1b2c", 0, 100, 0, 3, 0, "")), 47));
    assertEquals(
        "[Job 3f2a1b2c:====== 100/100 rounds, 3/3 ranks]",
        JobProgress.line(List.of(new JobProgress("3f2a1b2c", 100, 100, 3, 3, 0, "")), 47));
  }

  @Test
  void a_rank_that_is_away_and_deaths_are_seen() {
    assertEquals(
        "[Job 3f2a1b2c:=====>      50/100 rounds, 2/3 ranks, 1 death]",
        JobProgress.line(List.of(new JobProgress("3f2a1b2c", 50, 100, 2, 3, 1, "")), 60));
    assertEquals(
        "[Job 3f2a1b2c:=====>     50/100 rounds, 3/3 ranks, 2 deaths]",
        JobProgress.line(List.of(new JobProgress("3f2a1b2c", 50, 100, 3, 3, 2, "")), 60));
  }

  @Test
  void the_metric_of_the_newest_round_is_shown_where_there_is_room_for_it() {
    JobProgress measured = new JobProgress("3f2a1b2c", 50, 100, 3, 3, 0, "eval-auc 0.81234");
    assertEquals(
        "[Job 3f2a1b2c:====>    50/100 rounds, eval-auc 0.81234, 3/3 ranks]",
        JobProgress.line(List.of(measured), 66));
    assertEquals(
        "[Job 3f2a1b2c:=====>     50/100 rounds, 3/3 ranks]",
        JobProgress.line(List.of(measured), 50));
  }

  @Test
  void a_training_of_unknown_length_shows_its_version_and_no_bar() {
    assertEquals(
        "[Job 3f2a1b2c:                version 7, 3/3 ranks]",
        JobProgress.line(List.of(new JobProgress("3f2a1b2c", 7, 0, 3, 3, 0, "")), 51));
  }

  @Test
  void the_line_is_never_longer_than_the_terminal_is_wide() {
    JobProgress other = new JobProgress("0a0b0c0d", 7, 0, 2, 2, 0, "");
    List<JobProgress> three = List.of(HALF, other, HALF);
    assertEquals(
        "[Job 3f2a1b2c: 50/100 rounds, 3/3 ranks][Job 0a0b0c0d:     version 7, 2/2 ranks] ",
        JobProgress.line(three, 81));
    assertEquals("[Job 3f2a1b2c:50/100 rounds, 3/3 r", JobProgress.line(three, 34), "one of them");
    for (int width = 1; width < 200; width++) {
      assertEquals(width, JobProgress.line(three, width).length());
    }
  }
}
