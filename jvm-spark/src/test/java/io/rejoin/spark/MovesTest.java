package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.spark.Moves.Action;
import io.rejoin.spark.Moves.Situation;
import io.rejoin.spark.Moves.Step;
import io.rejoin.spark.Moves.Task;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class MovesTest {
  private final List<Task> tasks = new ArrayList<>();
  private final Map<String, Long> leaving = new TreeMap<>();
  private Moves moves = new Moves(3, false);
  private int freeSlots;
  private long at = 1_000;

  MovesTest() {
    for (int rank = 0; rank < 3; rank++) {
      tasks.add(new Task(10 + rank, rank, 0, 0, rank, "e" + rank));
    }
    allEnter(7);
  }

  private void allEnter(int version) {
    for (int rank = 0; rank < 3; rank++) {
      moves.entered(rank, version);
    }
  }

  private void notice(String executor) {
    leaving.put(executor, at);
  }

  private List<Step> steps() {
    return moves.decide(new Situation(tasks, leaving, freeSlots), at);
  }

  private List<Action> decide() {
    return steps().stream().map(Step::action).collect(Collectors.toList());
  }

  /** The rank works elsewhere, as another task. */
  private void comesBack(long number, int rank, String executor) {
    tasks.removeIf(task -> task.rank() == rank);
    tasks.add(new Task(number, rank, 0, 0, rank, executor));
  }

  @Test
  void without_a_notice_nothing_is_done() {
    freeSlots = 1;
    assertEquals(List.of(), decide());
  }

  @Test
  void a_rank_is_moved_to_a_free_slot_when_all_have_a_newer_checkpoint_and_not_before() {
    freeSlots = 1;
    notice("e1");
    List<Step> first = steps();
    assertEquals(Action.WANT_CHECKPOINT, first.get(0).action());
    assertEquals(7, first.get(0).after());
    assertEquals(Action.WAIT, first.get(1).action());
    assertEquals(List.of(), decide(), "a wait is told once");
    moves.entered(0, 8);
    moves.entered(1, 8);
    assertEquals(List.of(), decide(), "rank 2 could make the others start at 7");
    moves.entered(2, 8);
    List<Step> then = steps();
    assertEquals(1, then.size());
    assertEquals(Action.MOVE, then.get(0).action());
    assertEquals(11, then.get(0).task().number());
    assertTrue(then.get(0).reason().contains("version 8"), then.get(0).reason());
    assertEquals(List.of(), decide(), "its task runs for a moment more, and is killed once");
  }

  @Test
  void without_a_place_for_it_a_rank_trains_on_and_is_moved_when_there_is_one() {
    notice("e1");
    assertEquals(List.of(Action.WANT_CHECKPOINT, Action.WAIT), decide());
    allEnter(9);
    assertEquals(List.of(), decide());
    freeSlots = 1;
    List<Step> wish = steps();
    assertEquals(Action.WANT_CHECKPOINT, wish.get(0).action(), "the first one is old by now");
    assertEquals(9, wish.get(0).after());
    assertEquals(List.of(Action.WAIT), decide());
    allEnter(10);
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void further_notices_do_not_begin_the_wait_for_a_checkpoint_anew() {
    freeSlots = 1;
    notice("e1");
    decide();
    at += Moves.CHECKPOINT_MILLIS - 1;
    moves.entered(0, 8);
    notice("e0");
    assertEquals(7, steps().get(0).after(), "the newest version isn't more than was asked for");
    at += 1;
    assertTrue(decide().contains(Action.MOVE), "it has waited for as long as it waits");
  }

  @Test
  void a_spare_on_an_executor_that_stays_is_a_place() {
    tasks.add(new Task(20, 3, 0, 0, -1, "e3"));
    notice("e1");
    decide();
    allEnter(8);
    Step move = steps().get(0);
    assertEquals(Action.MOVE, move.action());
    assertTrue(move.reason().contains("a spare stands by on executor e3"), move.reason());
  }

  @Test
  void a_spare_on_an_executor_that_is_to_go_is_let_go_and_no_rank_is_moved_before_it_is_gone() {
    tasks.add(new Task(20, 3, 0, 0, -1, "e1"));
    freeSlots = 1;
    notice("e1");
    assertEquals(List.of(Action.WANT_CHECKPOINT, Action.LET_GO, Action.WAIT), decide());
    allEnter(8);
    assertEquals(List.of(), decide(), "it would be given the rank");
    tasks.removeIf(task -> task.rank() < 0);
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void one_rank_is_moved_at_a_time_the_one_that_was_noticed_first_and_each_by_its_own_checkpoint() {
    freeSlots = 2;
    notice("e2");
    decide();
    at += 5;
    notice("e0");
    assertEquals(List.of(Action.WANT_CHECKPOINT, Action.WAIT), decide());
    allEnter(8);
    assertEquals(12, steps().get(0).task().number(), "rank 2's");
    assertEquals(List.of(Action.WAIT), decide(), "it isn't back yet");
    tasks.removeIf(task -> task.rank() == 2);
    assertEquals(List.of(), decide());
    comesBack(30, 2, "e4");
    assertEquals(List.of(Action.WANT_CHECKPOINT), decide());
    assertEquals(List.of(Action.WAIT), decide());
    allEnter(9);
    assertEquals(10, steps().get(0).task().number(), "rank 0's");
  }

  @Test
  void a_checkpoint_that_does_not_come_is_waited_for_only_so_long() {
    freeSlots = 1;
    notice("e1");
    decide();
    at += Moves.CHECKPOINT_MILLIS - 1;
    assertEquals(List.of(), decide());
    at += 1;
    Step move = steps().get(0);
    assertEquals(Action.MOVE, move.action());
    assertTrue(move.reason().contains("no checkpoint newer than version 7"), move.reason());
  }

  @Test
  void where_the_world_may_change_ranks_that_find_no_place_for_long_leave_it() {
    moves = new Moves(3, false, 5_000);
    allEnter(7);
    notice("e1");
    notice("e2");
    decide();
    at += 4_999;
    assertEquals(List.of(), decide());
    at += 1;
    List<Step> steps = steps();
    assertEquals(
        List.of("LEAVE 1", "LEAVE 2"),
        steps.stream()
            .map(step -> step.action() + " " + step.task().index())
            .collect(Collectors.toList()));
    assertTrue(steps.get(0).reason().contains("in 5000 ms no spare"), steps.get(0).reason());
    assertTrue(moves.hasLeft(11) && moves.hasLeft(12) && !moves.hasLeft(10));
    assertEquals(List.of(), decide(), "each once");
    freeSlots = 2;
    allEnter(8);
    assertEquals(List.of(), decide(), "the world goes on without them");
  }

  @Test
  void a_rank_that_the_world_could_not_spare_is_moved_when_a_place_comes() {
    moves = new Moves(3, false, 5_000);
    allEnter(7);
    notice("e1");
    decide();
    allEnter(8);
    at += 5_000;
    assertEquals(List.of(Action.LEAVE), decide());
    at += 4_999;
    freeSlots = 1;
    assertEquals(List.of(), decide(), "it may be about to leave");
    at += 1;
    assertEquals(List.of(Action.WANT_CHECKPOINT), decide());
    allEnter(9);
    assertEquals(List.of(Action.MOVE), decide());
    assertEquals(1, moves.underWay(new Situation(tasks, leaving, freeSlots)));
    comesBack(20, 1, "e3");
    assertEquals(0, moves.underWay(new Situation(tasks, leaving, freeSlots)));
  }

  @Test
  void where_the_world_may_change_a_rank_that_finds_a_place_is_moved() {
    moves = new Moves(3, false, 5_000);
    allEnter(7);
    freeSlots = 1;
    notice("e1");
    decide();
    at += 5_000;
    assertEquals(List.of(), decide(), "the checkpoint is waited for");
    allEnter(8);
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void where_all_are_to_go_a_durable_checkpoint_comes_first() {
    moves = new Moves(3, true);
    allEnter(7);
    freeSlots = 3;
    List.of("e0", "e1", "e2").forEach(this::notice);
    assertEquals(List.of(Action.WANT_DURABLE, Action.WAIT), decide());
    allEnter(8);
    moves.durable(7);
    assertEquals(List.of(), decide(), "that one is older than the notice");
    moves.durable(8);
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void a_durable_folder_that_cannot_be_written_holds_up_no_move() {
    moves = new Moves(3, true);
    allEnter(7);
    freeSlots = 3;
    List.of("e0", "e1", "e2").forEach(this::notice);
    decide();
    allEnter(8);
    assertEquals(List.of(), decide());
    moves.durableFailed();
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void where_some_stay_nothing_has_to_be_durable() {
    moves = new Moves(3, true);
    allEnter(7);
    freeSlots = 1;
    notice("e0");
    notice("e1");
    assertEquals(Action.WANT_CHECKPOINT, decide().get(0));
  }

  @Test
  void while_another_rank_is_missing_none_is_moved() {
    tasks.removeIf(task -> task.rank() == 2);
    freeSlots = 1;
    notice("e1");
    decide();
    allEnter(8);
    assertEquals(List.of(), decide());
    comesBack(30, 2, "e4");
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void a_task_that_spark_has_not_reported_cannot_be_killed_yet() {
    comesBack(-1, 1, "e1");
    freeSlots = 1;
    notice("e1");
    decide();
    allEnter(8);
    assertEquals(List.of(), decide());
    comesBack(30, 1, "e1");
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void after_a_rollback_versions_count_anew() {
    freeSlots = 1;
    notice("e1");
    decide();
    moves.rolledBack(3);
    Step wish = steps().get(0);
    assertEquals(Action.WANT_CHECKPOINT, wish.action());
    assertEquals(3, wish.after());
    allEnter(4);
    assertEquals(List.of(Action.MOVE), decide());
  }

  @Test
  void in_another_world_another_number_of_ranks_has_to_be_there_and_checkpoints_are_wanted_anew() {
    freeSlots = 1;
    notice("e1");
    assertEquals(List.of(Action.WANT_CHECKPOINT, Action.WAIT), decide());
    tasks.removeIf(task -> task.rank() == 2);
    assertEquals(List.of(Action.WAIT), decide());
    moves.resized(2);
    assertEquals(List.of(Action.WANT_CHECKPOINT), decide());
    moves.entered(0, 8);
    moves.entered(1, 8);
    assertEquals(List.of(Action.MOVE), decide());
  }
}
