package io.rejoin.spark.ui;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.spark.ui.Recovery.Part;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class JobViewTest {
  private final JobView view = JobEvents.view(3);
  private final JobEvents events = JobEvents.of(view);

  private static List<OptionalLong> parts(Recovery recovery) {
    List<OptionalLong> parts = new ArrayList<>();
    for (Part each : Part.values()) {
      parts.add(recovery.millis(each));
    }
    return parts;
  }

  private static List<OptionalLong> millis(long... parts) {
    List<OptionalLong> all = new ArrayList<>();
    for (long each : parts) {
      all.add(each < 0 ? OptionalLong.empty() : OptionalLong.of(each));
    }
    return all;
  }

  private List<RankState> states() {
    return view.ranks().stream().map(RankView::state).collect(Collectors.toList());
  }

  @Test
  void ranks_wait_load_and_train() {
    assertEquals("waiting for its ranks", view.state());
    events.joined(500, 0, 0, "7").joined(600, 1, 0, "8").entered(900, 1, 0);
    assertEquals(List.of(RankState.LOADING, RankState.TRAINING, RankState.WAITING), states());
    assertEquals(2, view.ranksThere());
    assertEquals("training", view.state());
    assertEquals("h7", view.host("7"));
    assertEquals(900, view.rank(1).lastSeen());
  }

  @Test
  void what_a_death_cost_is_split_into_its_parts() {
    events.begun(3).lost(11_500, 1, "1", 1_500, 1);
    assertEquals(RankState.LOST, view.rank(1).state());
    assertEquals(10_000, view.rank(1).lastSeen());
    events.joined(15_500, 1, 1, "4");
    assertEquals(RankState.RESTORING, view.rank(1).state());
    events.restored(15_600, 1);
    assertEquals(RankState.LOADING, view.rank(1).state());
    // The version that it starts at, where the others are, too.
    events.entered(16_500, 1, 1);
    assertEquals(RankState.REPLAYING, view.rank(1).state());
    events.caughtUp(16_900, 1, 3);
    assertEquals(RankState.TRAINING, view.rank(1).state());

    Recovery recovery = view.recoveries().get(0);
    assertEquals(millis(1_500, 4_000, 100, 900, 400), parts(recovery));
    assertTrue(recovery.isOver());
    assertEquals("4", recovery.newExecutor());
    Costs costs = view.costs();
    assertEquals(6_900, costs.stoodStillMillis());
    assertEquals(3, costs.roundsAgain());
    // Three ranks had trained for 9 s, since the first version, and waited 0.4 s for the replay.
    assertEquals(3 * (9_000 - 400), costs.savedMillis());
    assertEquals(List.of("1"), view.rank(1).formerExecutors());
  }

  @Test
  void a_part_that_cannot_be_told_apart_belongs_to_the_next_one() {
    // It died in version 0, to which nothing is restored.
    events.begun(3).lost(3_000, 2, "2", 0, 1).joined(4_000, 2, 1, "2").entered(4_700, 2, 0);
    events.caughtUp(5_000, 2, 0);
    assertEquals(millis(0, 1_000, -1, 700, 300), parts(view.recoveries().get(0)));
  }

  @Test
  void deaths_at_once_are_one_standstill() {
    events.begun(3).lost(5_000, 0, "0", 1_000, 1).lost(5_200, 1, "1", 500, 1);
    for (int rank = 0; rank < 2; rank++) {
      events.joined(6_000, rank, 1, "5").restored(6_100, rank).entered(6_200, rank, 1);
    }
    events.caughtUp(6_500, 0, 2).caughtUp(7_000, 1, 2);
    assertEquals(1, view.costs().standstills().size());
    assertEquals(3_000, view.costs().stoodStillMillis());
    // The longer of the two replays.
    assertEquals(3 * (3_000 - 800), view.costs().savedMillis());
    events.lost(20_000, 2, "2", 0, 1);
    events.usage(21_000, "0", 10);
    assertEquals(2, view.costs().standstills().size());
    assertEquals(4_000, view.costs().stoodStillMillis());
  }

  @Test
  void a_rank_that_dies_again_while_it_comes_back_has_two_recoveries() {
    events.begun(3).lost(5_000, 1, "1", 0, 1).joined(6_000, 1, 1, "4").lost(6_400, 1, "4", 0, 2);
    assertTrue(view.recoveries().get(0).isOver());
    assertEquals(millis(0, 1_000, 400, -1, -1), parts(view.recoveries().get(0)));
    assertFalse(view.recoveries().get(1).isOver());
    events.joined(8_000, 1, 2, "5").restored(8_100, 1).entered(8_200, 1, 1).caughtUp(8_300, 1, 1);
    assertTrue(view.recoveries().get(1).isOver());
    assertEquals(3_300, view.costs().stoodStillMillis());
    assertEquals(List.of("1", "4"), view.rank(1).formerExecutors());
    assertEquals(3, view.rank(1).incarnation() + 1);
  }

  @Test
  void a_rank_that_enters_a_version_that_is_new_to_all_has_nothing_left_to_replay() {
    events.begun(3).lost(5_000, 1, "1", 0, 1).joined(6_000, 1, 1, "4").restored(6_100, 1);
    events.entered(6_200, 1, 1);
    assertEquals(RankState.REPLAYING, view.rank(1).state());
    events.entered(6_500, 1, 2);
    assertEquals(RankState.TRAINING, view.rank(1).state());
    assertEquals(OptionalLong.of(300), view.recoveries().get(0).millis(Part.REPLAY));
  }

  @Test
  void a_job_that_fails_says_where_its_ranks_were() {
    events.begun(3).lost(5_000, 1, "1", 1_000, 4);
    events.event(9_000, "JobFailed", "code", "UNRECOVERABLE", "message", "rank 1 has died");
    assertEquals("failed", view.state());
    assertEquals(RankState.LOST, view.rank(1).state());
    assertEquals(5_000, view.costs().stoodStillMillis());
    assertEquals(millis(1_000, 4_000, -1, -1, -1), parts(view.recoveries().get(0)));
  }

  @Test
  void after_a_rollback_the_version_is_that_of_the_new_lineage() {
    events.begun(3).entered(3_000, 0, 2);
    events.event(
        4_000, "VersionEntered", "rank", "0", "lineage", "1", "version", "1", "round", "5");
    assertEquals(1, view.version());
    events.entered(4_100, 1, 9);
    assertEquals(1, view.version());
  }

  @Test
  void memory_is_of_the_processes_that_are_there_and_its_most_of_all() {
    events.begun(3).usage(3_000, "0", 100).usage(3_100, "1", 50).usage(3_200, "0", 70);
    assertEquals(120, view.memory().now(Memory.Held.LOGS));
    assertEquals(200, view.memory().mostOfOne(Memory.Held.LOGS));
    assertEquals(3_200, view.rank(0).lastSeen());
    events.event(4_000, "AgentLost", "agent", "a0");
    assertEquals(50, view.memory().now(Memory.Held.LOGS));
    assertEquals(200, view.memory().mostOfOne(Memory.Held.LOGS));
  }

  @Test
  void a_long_job_has_as_many_points_as_a_picture_needs() {
    events.begun(3);
    for (int version = 2; version < 10_000; version++) {
      events.entered(1_000L * version, 0, version);
    }
    assertTrue(view.points().size() <= 600, "points: " + view.points().size());
    assertEquals(49_995, view.points().get(view.points().size() - 1).done(), 100);
  }

  @Test
  void in_another_world_there_are_other_ranks_which_join_again() {
    events.begun(3).lost(3_000, 1, "1", 100, 1);
    events.event(5_000, "Resized", "ranks", "0,,1", "world", "2", "reason", "no slot");
    assertEquals(List.of(RankState.WAITING, RankState.WAITING), states());
    assertEquals(2, view.world());
    assertTrue(view.recoveries().get(0).isOver());
    assertEquals("there are 2 ranks from now on: no slot", view.notes().get(5_000L));
    events.joined(5_100, 0, 2, "0").joined(5_100, 1, 2, "2").entered(5_200, 1, 1);
    assertEquals(List.of(RankState.RESTORING, RankState.TRAINING), states());
    assertEquals(2, view.ranksThere());
  }
}
