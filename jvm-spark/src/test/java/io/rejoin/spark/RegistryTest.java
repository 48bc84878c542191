package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.spark.Registry.Action;
import io.rejoin.spark.Registry.Decision;
import io.rejoin.spark.Registry.State;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class RegistryTest {
  private final Registry registry = new Registry();

  @Test
  void each_change_of_an_executor_is_one_line_with_how_long_it_was_what_and_why() {
    assertEquals(
        Optional.of("executor 3: present: on host h"), registry.executorAdded("3", "h", 1_000));
    assertEquals(
        Optional.of(
            "executor 3: present for 500 ms, now registered: its agent is 5 on h, process 7"),
        registry.agentJoined("3", "5 on h, process 7", 1_500));
    assertEquals(Optional.empty(), registry.agentJoined("3", "5 on h, process 7", 1_600));
    assertEquals(
        Optional.of("executor 3: registered for 1000 ms, now excluded: 2 tasks have failed"),
        registry.executorExcluded("3", "2 tasks have failed", 2_500));
    assertEquals(
        "1 executors on 1 hosts; excluded executors: executor 3 (2 tasks have failed); excluded"
            + " hosts: none",
        registry.summary());
    assertEquals(
        Optional.of("executor 3: excluded for 10 ms, now gone: exit 137"),
        registry.executorGone("3", "exit 137", 2_510));
    assertEquals(
        "0 executors on 0 hosts; excluded executors: none; excluded hosts: none",
        registry.summary());
  }

  @Test
  void what_spark_says_of_an_older_attempt_of_the_stage_counts_for_nobody() {
    registry.taskJoined(1, 0, 0, 1, "3", 1_000);
    registry.taskStarted(0, 1, 0, 17, "4", 2_000);
    registry.taskFailed(1, 0, 0, "FENCED", true, 3_000);
    assertEquals(0, registry.failuresOfTask(1));
    assertEquals(0, registry.deathsOfRank(1));
    registry.taskFailed(0, 1, 0, "killed", true, 4_000);
    assertEquals(1, registry.mostFailuresOfOneTask());
    registry.taskStarted(0, 2, 0, 18, "4", 5_000);
    assertEquals(0, registry.mostFailuresOfOneTask(), "Spark counts anew");
  }

  @Test
  void a_task_that_was_lost_before_the_world_shrank_dies_for_no_rank_of_the_new_one() {
    for (int index = 0; index < 3; index++) {
      registry.taskJoined(index, 0, 0, index, Integer.toString(index), 1_000);
    }
    registry.rankLost(1, "1", "silent", 2_000);
    registry.worldChanged(new int[] {0, -1, 1});
    registry.taskFailed(1, 0, 0, "its host is gone", true, 3_000);
    assertEquals(0, registry.deathsOfRank(1));
  }

  @Test
  void while_the_world_changes_not_all_that_train_are_taken_for_going() {
    for (int index = 0; index < 2; index++) {
      registry.executorAdded(Integer.toString(index), "h", 500);
      registry.taskJoined(index, 0, 0, index, Integer.toString(index), 1_000);
    }
    registry.executorLeaves("1", "Spark decommissions it", 2_000);
    assertFalse(registry.situation(0).allLeave());
    registry.worldChanged(new int[] {0, -1});
    assertFalse(registry.situation(0).allLeave(), "nobody has joined yet");
    registry.executorLeaves("0", "Spark decommissions it", 3_000);
    registry.taskJoined(0, 0, 0, 0, "0", 3_500);
    assertTrue(registry.situation(0).allLeave());
  }

  @Test
  void an_executor_that_is_gone_stays_so_whatever_is_reported_late() {
    registry.executorGone("3", "exit 137", 1);
    assertEquals(Optional.empty(), registry.executorAdded("3", "h", 2));
    assertEquals(Optional.empty(), registry.agentJoined("3", "5 on h, process 7", 3));
    assertEquals(Optional.empty(), registry.executorExcluded("3", "failures", 4));
    assertEquals(Optional.empty(), registry.executorReadmitted("3", 5));
    assertEquals(Optional.empty(), registry.executorGone("3", "again", 6));
    assertEquals(Optional.of(State.GONE), registry.executorState("3"));
    assertTrue(registry.summary().startsWith("0 executors on 0 hosts"), registry.summary());
  }

  @Test
  void a_late_report_of_an_executor_that_is_gone_for_long_makes_it_none_that_is_there() {
    int kept = 1_000;
    for (int executor = 0; executor <= kept; executor++) {
      registry.executorAdded("x" + executor, "h", 1);
      registry.executorGone("x" + executor, "exit 1", 2);
    }
    assertEquals(Optional.empty(), registry.executorState("x0"));
    registry.agentLost("x0", "its connection ended", 3);
    assertEquals(List.of(), registry.executorsThatStay());
    assertEquals(List.of(), registry.executorsWithoutNotice());
    assertTrue(registry.summary().startsWith("0 executors on 0 hosts"), registry.summary());
  }

  @Test
  void an_executor_that_stands_still_is_slow_until_it_runs_again() {
    registry.executorAdded("3", "h", 0);
    registry.agentJoined("3", "5 on h, process 7", 0);
    assertEquals(
        Optional.of("executor 3: registered for 900 ms, now slow: nothing of it has run"),
        registry.agentSlow("3", "nothing of it has run", 900));
    assertEquals(List.of("3"), registry.executorsThatStay());
    assertEquals(
        Optional.of("executor 3: slow for 100 ms, now registered: it runs"),
        registry.agentRuns("3", "it runs", 1_000));
    assertEquals(Optional.empty(), registry.agentRuns("3", "it runs", 1_000));
    registry.agentSlow("3", "again", 2_000);
    registry.executorGone("3", "exit 137", 3_000);
    assertEquals(Optional.empty(), registry.agentRuns("3", "late", 3_000));
  }

  @Test
  void failures_count_for_the_task_also_before_it_has_a_rank() {
    registry.taskStarted(3, 0, 0, 17, "1", 1);
    registry.taskFailed(3, 0, 0, "exit 1", true, 2);
    registry.taskStarted(3, 0, 1, 18, "2", 3);
    registry.taskJoined(3, 0, 1, 3, "2", 3);
    registry.taskFailed(3, 0, 1, "exit 1", true, 4);
    assertEquals(2, registry.failuresOfTask(3));
    assertEquals(1, registry.deathsOfRank(3));
  }

  @Test
  void an_executor_that_was_told_of_its_end_stays_leaving_until_it_is_gone() {
    registry.executorAdded("3", "h", 1_000);
    registry.executorAdded("4", "h", 1_000);
    registry.taskStarted(1, 0, 0, 17, "3", 1_000);
    registry.taskJoined(1, 0, 0, 1, "3", 1_000);
    assertEquals(List.of("3", "4"), registry.executorsThatStay());
    assertEquals(
        Optional.of("executor 3: present for 500 ms, now leaving: decommissioned"),
        registry.executorLeaves("3", "decommissioned", 1_500));
    assertEquals(Optional.empty(), registry.executorLeaves("3", "decommissioned", 1_600));
    assertEquals(Optional.empty(), registry.agentJoined("3", "5 on h, process 7", 1_600));
    assertEquals(Optional.empty(), registry.executorExcluded("3", "failures", 1_600));
    assertEquals(Optional.of(State.LEAVING), registry.executorState("3"));
    assertEquals(List.of("4"), registry.executorsThatStay());
    assertEquals(List.of("4"), registry.executorsWithoutNotice());
    assertEquals(1, registry.situation(0).leaves());
    assertTrue(registry.situation(0).allLeave());
    registry.executorExcluded("4", "failures", 1_600);
    assertEquals(List.of(), registry.executorsThatStay());
    assertEquals(
        Optional.of("executor 3: leaving for 200 ms, now gone: exit 0"),
        registry.executorGone("3", "exit 0", 1_700));
    assertEquals(0, registry.situation(0).leaves());
  }

  @Test
  void of_the_executors_that_are_to_go_those_that_had_a_task_are_replaced_until_they_are_gone() {
    for (String executor : List.of("3", "4", "5")) {
      registry.executorAdded(executor, "h", 1_000);
    }
    registry.taskStarted(0, 0, 0, 16, "4", 1_000);
    registry.taskStarted(1, 0, 0, 17, "3", 1_000);
    registry.executorLeaves("3", "decommissioned", 1_500);
    // It holds pages at most, which Spark or Rejoin copies to those that stay.
    registry.executorLeaves("5", "idle", 1_500);
    assertEquals(Set.of("3"), registry.executorsToReplace());
    registry.taskFailed(1, 0, 0, "moved", false, 2_000);
    registry.taskStarted(1, 0, 1, 18, "4", 2_000);
    assertEquals(Set.of("3"), registry.executorsToReplace());
    registry.executorGone("3", "exit 0", 2_500);
    assertEquals(Set.of(), registry.executorsToReplace());
  }

  @Test
  void a_task_goes_from_its_start_to_its_loss_and_the_next_attempt_begins_anew() {
    assertEquals(
        Optional.of("task 1, attempt 0.0: started: on executor 3"),
        registry.taskStarted(1, 0, 0, 17, "3", 100));
    assertEquals(
        Optional.of("task 1, attempt 0.0: started for 50 ms, now joined: as rank 1 on executor 3"),
        registry.taskJoined(1, 0, 0, 1, "3", 150));
    assertEquals(
        Optional.of("task 1, attempt 0.0: joined for 10 ms, now lost: silent"),
        registry.rankLost(1, "3", "silent", 160));
    assertEquals(
        Optional.of("task 1, attempt 0.0: lost for 5 ms, now failed: exit 137"),
        registry.taskFailed(1, 0, 0, "exit 137", true, 165));
    registry.taskStarted(1, 0, 1, 18, "4", 170);
    assertEquals(Optional.empty(), registry.rankLost(1, "3", "silent", 180), "it runs elsewhere");
    assertEquals(Optional.of(State.STARTED), registry.taskState(1));
    assertEquals(1, registry.mostFailuresOfOneTask());
    assertEquals("task 1, attempt 0.0: exit 137", registry.lastFailure());
  }

  @Test
  void a_spare_is_a_task_without_a_rank_until_it_takes_the_one_that_another_task_had() {
    registry.taskStarted(1, 0, 0, 17, "3", 100);
    registry.taskJoined(1, 0, 0, 1, "3", 110);
    registry.taskStarted(3, 0, 0, 18, "4", 100);
    assertEquals(
        Optional.of("task 3, attempt 0.0: started for 20 ms, now standing by: on executor 4"),
        registry.taskStandsBy(3, 0, 0, "4", 120));
    assertEquals(Optional.empty(), registry.taskStandsBy(3, 0, 0, "4", 125));
    registry.rankLost(1, "3", "exit 137", 130);
    assertEquals(
        Optional.of(
            "task 3, attempt 0.0: standing by for 20 ms, now joined: as rank 1 on executor 4"),
        registry.taskJoined(3, 0, 0, 1, "4", 140));
    assertEquals(Optional.of(State.LOST), registry.taskState(1));
    assertEquals(1, registry.tasksThatRun(), "the lost one may be frozen: it isn't waited for");
    // The task that is tried again is the next spare, and the rank isn't its own any more.
    registry.taskFailed(1, 0, 0, "exit 137", true, 150);
    registry.taskStarted(1, 0, 1, 19, "5", 160);
    registry.taskStandsBy(1, 0, 1, "5", 170);
    assertEquals(
        "silent; with it go rank 1 (task 3, attempt 0.0)",
        registry.killExecutor("4", "silent", 9_000).reason());
    assertEquals(
        Optional.of("task 3, attempt 0.0: joined for 40 ms, now lost: exit 1"),
        registry.rankLost(1, "4", "exit 1", 180));
    assertEquals(Optional.of(State.STANDING_BY), registry.taskState(1));
    assertEquals(1, registry.tasksThatRun());
    registry.taskFinished(1, 0, 1, 190);
    assertEquals(0, registry.tasksThatRun());
  }

  @Test
  void in_another_world_the_same_task_is_another_rank_with_the_deaths_that_it_had() {
    for (int task = 0; task < 3; task++) {
      registry.taskStarted(task, 0, 0, 17 + task, "" + task, 100);
      registry.taskJoined(task, 0, 0, task, "" + task, 110);
    }
    registry.taskFailed(2, 0, 0, "exit 137", true, 120);
    registry.taskStarted(2, 0, 1, 20, "5", 130);
    registry.taskJoined(2, 0, 1, 2, "5", 140);
    registry.rankLost(1, "1", "exit 137", 150);
    registry.worldChanged(new int[] {0, -1, 1});
    assertEquals(Optional.of(State.LOST), registry.taskState(1));
    assertEquals(Optional.of(State.STARTED), registry.taskState(2));
    registry.taskJoined(2, 0, 1, 1, "5", 200);
    assertEquals(1, registry.rankOf(2, 0, 1));
    assertEquals(1, registry.deathsOfRank(1));
    assertEquals(0, registry.deathsOfRank(2));
  }

  @Test
  void what_is_reported_of_an_older_attempt_counts_as_a_failure_and_changes_no_state() {
    registry.taskStarted(1, 0, 1, 18, "4", 170);
    assertEquals(Optional.empty(), registry.taskFailed(1, 0, 0, "exit 137", true, 180));
    assertEquals(Optional.empty(), registry.taskJoined(1, 0, 0, 1, "3", 190));
    assertEquals(Optional.of(State.STARTED), registry.taskState(1));
    assertEquals(1, registry.mostFailuresOfOneTask());
    // A stage that begins again numbers its attempts anew.
    registry.taskStarted(1, 1, 0, 20, "5", 200);
    assertEquals(Action.NONE, registry.killTask(1, 0, 1, "silent").action());
  }

  @Test
  void the_deaths_of_a_rank_are_those_that_spark_counts() {
    registry.taskJoined(3, 0, 0, 1, "4", 100);
    assertEquals(1, registry.rankOf(3, 0, 0));
    registry.taskFailed(3, 0, 0, "preempted", false, 110);
    assertEquals(0, registry.deathsOfRank(1));
    registry.taskJoined(3, 0, 1, 1, "5", 120);
    registry.taskFailed(3, 0, 1, "exit 137", true, 130);
    assertEquals(1, registry.deathsOfRank(1));
    // Another task has the rank: it was a spare.
    registry.taskJoined(2, 0, 0, 1, "6", 140);
    registry.taskFailed(2, 0, 0, "exit 137", true, 150);
    assertEquals(2, registry.deathsOfRank(1));
  }

  @Test
  void a_failure_that_spark_does_not_count_is_none() {
    registry.taskFailed(1, 0, 0, "preempted", false, 180);
    assertEquals(0, registry.mostFailuresOfOneTask());
    assertEquals("", registry.lastFailure());
    assertEquals(Optional.of(State.FAILED), registry.taskState(1));
  }

  @Test
  void what_is_said_of_an_attempt_is_not_taken_for_the_one_that_came_after_it() {
    registry.taskStarted(5, 0, 0, 70, "driver", 100);
    assertEquals(70, registry.numberOf(5, 0, 0));
    registry.taskFailed(5, 0, 0, "its executor went", false, 180);
    registry.taskStarted(5, 0, 1, 71, "driver", 200);
    assertEquals(-1, registry.numberOf(5, 0, 0));
    assertEquals(71, registry.numberOf(5, 0, 1));
    assertEquals(-1, registry.numberOf(6, 0, 0), "nobody has heard of it");
  }

  @Test
  void a_task_that_spark_has_not_reported_is_killed_when_it_has() {
    registry.taskJoined(1, 0, 0, 1, "driver", 100);
    Decision early = registry.killTask(1, 0, 0, "silent");
    assertEquals(Action.WAIT, early.action());
    assertTrue(early.reason().contains("task 1, attempt 0.0"), early.reason());
    assertEquals(Optional.empty(), registry.killWanted(1, 0, 1));
    registry.taskStarted(1, 0, 0, 17, "driver", 110);
    assertEquals(Optional.of("silent"), registry.killWanted(1, 0, 0));
    Decision late = registry.killTask(1, 0, 0, "silent");
    assertEquals(Action.KILL_TASK, late.action());
    assertEquals(17, late.task());
    registry.taskFailed(1, 0, 0, "killed", false, 120);
    Decision over = registry.killTask(1, 0, 0, "silent");
    assertEquals(Action.NONE, over.action());
    assertEquals("task 1, attempt 0.0 has ended: killed", over.reason());
  }

  @Test
  void an_executor_is_killed_unless_it_is_gone_and_who_goes_with_it_is_said() {
    registry.executorAdded("3", "h", 1);
    registry.taskJoined(0, 0, 0, 0, "3", 2);
    registry.taskJoined(1, 0, 0, 1, "3", 2);
    registry.rankLost(1, "3", "silent", 3);
    Decision kill = registry.killExecutor("3", "rank 1 is silent", 9_000);
    assertEquals(Action.KILL_EXECUTOR, kill.action());
    assertEquals("rank 1 is silent; with it go rank 0 (task 0, attempt 0.0)", kill.reason());
    registry.executorHeard("3", 6_500);
    registry.executorHeard("unknown", 6_500);
    assertEquals(
        "rank 1 is silent; its last heartbeat came to Spark 2500 ms ago; with it go rank 0 (task 0,"
            + " attempt 0.0)",
        registry.killExecutor("3", "rank 1 is silent", 9_000).reason());
    registry.executorGone("3", "exit 137", 4);
    Decision none = registry.killExecutor("3", "rank 1 is silent", 9_000);
    assertEquals(Action.NONE, none.action());
    assertEquals("executor 3 is gone: exit 137", none.reason());
    assertEquals(Action.KILL_EXECUTOR, registry.killExecutor("unknown", "silent", 9_000).action());
  }

  @Test
  void a_host_is_excluded_and_readmitted_with_a_line_each() {
    assertEquals(
        Optional.of("host h: now excluded: 2 executors"),
        registry.hostExcluded("h", "2 executors"));
    assertEquals(Optional.empty(), registry.hostExcluded("h", "2 executors"));
    assertTrue(registry.summary().endsWith("{h=2 executors}"), registry.summary());
    assertEquals(Optional.of("host h: its exclusion has ended"), registry.hostReadmitted("h"));
    assertEquals(Optional.empty(), registry.hostReadmitted("h"));
  }

  /** Ten seconds of them, in less than that, with a naive record of what has to come out. */
  @Test
  void a_thousand_executors_and_ten_thousand_events_a_second_are_kept_up_with() {
    int alive = 1_000;
    int events = 100_000;
    Random random = new Random(7);
    List<String> present = new ArrayList<>();
    Map<String, String> hosts = new HashMap<>();
    Map<Integer, Integer> failures = new HashMap<>();
    int[] attempts = new int[alive];
    Set<String> gone = new HashSet<>();
    int next = 0;
    long begun = System.nanoTime();
    for (int at = 0; at < events; at++) {
      if (present.size() < alive) {
        String added = Integer.toString(next++);
        hosts.put(added, "host " + random.nextInt(200));
        present.add(added);
        assertTrue(registry.executorAdded(added, hosts.get(added), at).isPresent());
        registry.agentJoined(added, "agent " + added, at);
        continue;
      }
      int rank = random.nextInt(alive);
      String executor = present.get(random.nextInt(alive));
      registry.taskStarted(rank, 0, attempts[rank], at, executor, at);
      registry.taskJoined(rank, 0, attempts[rank], rank, executor, at);
      if (random.nextInt(10) == 0) {
        present.remove(executor);
        gone.add(executor);
        assertTrue(registry.executorGone(executor, "exit 137", at).isPresent());
        registry.taskFailed(rank, 0, attempts[rank]++, "its executor is gone", true, at);
        failures.merge(rank, 1, Integer::sum);
      }
    }
    long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
    assertTrue(millis < 10_000, events + " events took " + millis + " ms");
    long places = present.stream().map(hosts::get).distinct().count();
    assertEquals(
        present.size()
            + " executors on "
            + places
            + " hosts; excluded executors: none; excluded"
            + " hosts: none",
        registry.summary());
    int most = failures.values().stream().mapToInt(Integer::intValue).max().orElse(0);
    assertEquals(most, registry.mostFailuresOfOneTask());
    long kept = gone.stream().filter(one -> registry.executorState(one).isPresent()).count();
    assertEquals(Registry.GONE_KEPT, kept, "of " + gone.size());
  }
}
