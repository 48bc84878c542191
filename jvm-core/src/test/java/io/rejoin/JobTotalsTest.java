package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class JobTotalsTest {
  private final JobTotals totals = new JobTotals();

  private static long nanos(long millis) {
    return TimeUnit.MILLISECONDS.toNanos(millis);
  }

  private void at(long millis, String... event) {
    totals.accept(new TrainingEvent(event, nanos(millis)));
  }

  private long lostMillis(long millis) {
    return totals.lostMillis(nanos(millis));
  }

  private void entered(long millis, int rank) {
    entered(millis, rank, 0, 7);
  }

  private void entered(long millis, int rank, int lineage, int version) {
    String[] event = {
      "VersionEntered",
      "rank",
      "" + rank,
      "lineage",
      "" + lineage,
      "version",
      "" + version,
      "round",
      "" + 10 * version
    };
    at(millis, event);
  }

  private void caughtUp(long millis, int rank, int roundsAgain) {
    at(millis, "CaughtUp", "rank", "" + rank, "rounds_again", "" + roundsAgain);
  }

  private void lost(long millis, int rank, long silent) {
    at(millis, "RankLost", "rank", "" + rank, "silent_millis", Long.toString(silent));
  }

  @Test
  void time_is_lost_from_the_last_sign_of_life_until_all_work_again() {
    entered(100, 0);
    assertEquals(0, lostMillis(500));
    lost(1000, 1, 60);
    lost(1100, 2, 50);
    assertEquals(260, lostMillis(1200), "it grows while training waits");
    at(1250, "RankJoined", "rank", "1");
    entered(1260, 1);
    assertEquals(0, totals.recoveries(), "it repeats what the others have done");
    assertTrue(totals.isBehind(1));
    entered(1300, 1, 0, 8);
    assertEquals(1, totals.recoveries(), "that version was new when it joined");
    assertFalse(totals.isBehind(1));
    entered(1310, 0);
    caughtUp(1400, 2, 3);
    assertEquals(460, lostMillis(9000), "two at the same time count once");
    assertEquals(2, totals.recoveries());
    entered(1500, 2);
    assertEquals(2, totals.recoveries(), "a version is no recovery");
  }

  @Test
  void it_is_as_far_as_its_first_rank_until_all_go_back_to_an_older_version() {
    entered(100, 0, 0, 4);
    entered(110, 1, 0, 5);
    entered(120, 2, 0, 3);
    assertEquals(5, totals.version());
    assertEquals(50, totals.round());
    entered(130, 0, 1, 2);
    entered(140, 1, 0, 5);
    assertEquals(2, totals.version(), "what is heard late of the old lineage counts no more");
    assertEquals(20, totals.round());
  }

  @Test
  void who_is_back_after_a_rollback_works_in_the_new_lineage_from_its_first_version_on() {
    entered(100, 0, 0, 4);
    lost(1000, 1, 0);
    at(1100, "RankJoined", "rank", "1");
    entered(1200, 1, 1, 2);
    assertEquals(200, lostMillis(5000));
  }

  @Test
  void who_is_lost_before_the_first_version_has_nothing_to_repeat() {
    at(100, "RankJoined", "rank", "1");
    lost(200, 1, 0);
    at(300, "RankJoined", "rank", "1");
    entered(500, 1, 0, 0);
    assertEquals(300, lostMillis(5000));
  }

  @Test
  void the_metric_is_the_last_one_of_the_newest_round_that_was_printed() {
    assertEquals("", totals.metric());
    printed("[0]\ttrain-logloss:0.69314718055994529\teval set-auc:0.5");
    assertEquals("eval set-auc 0.50000", totals.metric());
    printed("a line of the user's own: 7\nwith [1]\tin it");
    printed("early stopping after 3 rounds");
    assertEquals("eval set-auc 0.50000", totals.metric());
    printed("(2 texts left out)\n[12]\ttrain-rmse:1.25\teval-rmse:nan\n");
    assertEquals("eval-rmse nan", totals.metric());
    assertEquals("[12]\ttrain-rmse:1.25\teval-rmse:nan", totals.evaluation());
  }

  private void printed(String text) {
    at(1, "Printed", "rank", "0", "text", text);
  }

  @Test
  void a_rank_is_there_from_its_join_to_its_loss_and_again_when_it_is_back() {
    at(100, "RankJoined", "rank", "0");
    at(110, "RankJoined", "rank", "1");
    lost(200, 1, 0);
    assertEquals(1, totals.ranksThere());
    at(300, "RankJoined", "rank", "1");
    assertEquals(2, totals.ranksThere());
    caughtUp(400, 1, 3);
    lost(500, 1, 0);
    caughtUp(600, 1, 2);
    assertEquals(2, totals.deaths());
    assertEquals(5, totals.roundsAgain());
    totals.jobIsOver(nanos(700));
    assertEquals(0, totals.ranksThere());
  }

  @Test
  void a_rank_that_is_moved_is_lost_for_a_moment_and_that_is_no_death() {
    at(100, "RankMoved", "rank", "1", "executor", "e", "reason", "r");
    lost(200, 1, 0);
    caughtUp(300, 1, 1);
    assertEquals(0, totals.deaths());
    assertEquals(100, lostMillis(1000));
    lost(2000, 1, 0);
    assertEquals(1, totals.deaths());
  }

  @Test
  void it_goes_on_being_lost_from_a_job_that_is_over_to_the_next_ones_first_version() {
    at(900, "Printed", "rank", "0", "text", "[7]\teval-auc:0.5\n");
    assertEquals("eval-auc 0.50000", totals.metric());
    lost(1000, 0, 0);
    totals.jobIsOver(nanos(1500));
    assertEquals("", totals.evaluation());
    assertEquals(1000, lostMillis(2000));
    entered(2500, 1);
    assertEquals(1500, lostMillis(3000));
    assertEquals(0, totals.recoveries());
  }

  @Test
  void a_lost_rank_that_was_not_waited_for_any_more_costs_nothing_after_the_end() {
    lost(1000, 0, 0);
    at(1200, "JobEnded", "digest", "", "deaths", "1");
    assertEquals(200, lostMillis(5000));
  }

  @Test
  void what_is_held_is_the_newest_of_each_process_that_lives() {
    usage("1", 10, 1);
    usage("2", 20, 2);
    usage("1", 5, 3);
    assertEquals(25, totals.held("log_bytes"));
    assertEquals(5, totals.held("spilled_bytes"));
    at(9, "AgentLost", "agent", "2", "executor", "e", "reason", "r");
    assertEquals(5, totals.held("log_bytes"));
    totals.jobIsOver(nanos(10));
    assertEquals(0, totals.held("log_bytes"));
  }

  private void usage(String agent, long log, long spilled) {
    at(1, "Usage", "agent", agent, "log_bytes", "" + log, "spilled_bytes", "" + spilled);
  }

  @Test
  void
      in_another_world_training_waits_until_its_first_version_and_nobody_for_those_that_are_gone() {
    at(100, "RankJoined", "rank", "0");
    at(100, "RankJoined", "rank", "1");
    entered(200, 0);
    lost(1000, 1, 0);
    at(3000, "Resized", "ranks", "0,", "world", "1", "reason", "no slot");
    assertEquals(0, totals.ranksThere());
    at(3100, "RankJoined", "rank", "0");
    entered(3500, 0, 1, 7);
    assertEquals(1, totals.ranksThere());
    assertFalse(totals.isBehind(1));
    assertEquals(2500, lostMillis(9000));
    assertEquals(1, totals.deaths());
  }
}
