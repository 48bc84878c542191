package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;

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
    at(millis, "VersionEntered", "rank", Integer.toString(rank), "version", "7");
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
    entered(1300, 1);
    assertEquals(1, totals.recoveries());
    entered(1310, 0);
    at(1400, "CaughtUp", "rank", "2");
    assertEquals(460, lostMillis(9000), "two at the same time count once");
    assertEquals(2, totals.recoveries());
    entered(1500, 2);
    assertEquals(2, totals.recoveries(), "a version is no recovery");
  }

  @Test
  void it_goes_on_being_lost_from_a_job_that_is_over_to_the_next_ones_first_version() {
    lost(1000, 0, 0);
    totals.jobIsOver(nanos(1500));
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
}
