package io.rejoin.flink;

import static io.rejoin.flink.Gathering.Decision.BEGIN;
import static io.rejoin.flink.Gathering.Decision.JOIN;
import static io.rejoin.flink.Gathering.Decision.OUTDATED;
import static io.rejoin.flink.Gathering.Decision.STOPPED;
import static io.rejoin.flink.Gathering.Decision.WAIT;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class GatheringTest {
  private static Offer offer(int rank, int attempt, int version, int ended) {
    return new Offer(rank, attempt, version, version == 0 ? "" : "d" + version, ended, "");
  }

  /** A gang of two ranks, both of which hold its state. */
  private static Gathering gang() {
    Gathering gathering = new Gathering(2);
    assertEquals(WAIT, gathering.asked(offer(0, 0, 0, 0)));
    assertEquals(BEGIN, gathering.asked(offer(1, 0, 0, 0)));
    assertEquals(1, gathering.begun());
    gathering.started(new Started(0, 0, 1));
    gathering.started(new Started(1, 0, 1));
    return gathering;
  }

  @Test
  void a_gang_begins_when_all_ranks_have_asked_and_with_the_newest_state() {
    Gathering gathering = new Gathering(3);
    assertEquals(WAIT, gathering.asked(offer(2, 0, 41, 0)));
    assertEquals(WAIT, gathering.asked(offer(0, 0, 42, 0)));
    assertEquals(List.of(1), gathering.missing());
    assertEquals(BEGIN, gathering.asked(offer(1, 0, 41, 0)));
    assertEquals(42, gathering.newest().version);
  }

  @Test
  void a_gang_hears_how_far_restored_ranks_had_read() {
    Gathering gathering = new Gathering(2);
    gathering.asked(offer(0, 0, 3, 0).read(new byte[] {7}));
    gathering.asked(offer(1, 0, 3, 0));
    assertEquals(1, gathering.read().size());
    assertArrayEquals(new byte[] {7}, gathering.read().get(0));
  }

  @Test
  void an_attempt_that_comes_later_joins_the_gang_that_is_there() {
    Gathering gathering = gang();
    assertFalse(gathering.failed(1, 0));
    assertEquals(JOIN, gathering.asked(offer(1, 1, 0, 0)));
    assertEquals(1, gathering.gang());
  }

  @Test
  void an_attempt_that_flink_has_given_up_is_turned_away() {
    Gathering gathering = gang();
    gathering.failed(1, 0);
    assertEquals(OUTDATED, gathering.asked(offer(1, 0, 9, 0)));
    gathering.reset();
    assertEquals(OUTDATED, gathering.asked(offer(1, 0, 9, 0)));
    assertEquals(WAIT, gathering.asked(offer(0, 0, 3, 0)));
    assertEquals(BEGIN, gathering.asked(offer(1, 1, 2, 0)));
    assertEquals(3, gathering.newest().version);
  }

  @Test
  void the_gang_is_over_when_the_last_holder_of_its_state_is_gone() {
    Gathering gathering = gang();
    assertFalse(gathering.failed(0, 0));
    assertTrue(gathering.failed(1, 0));
    assertEquals(WAIT, gathering.asked(offer(0, 1, 5, 0)));
    assertEquals(BEGIN, gathering.asked(offer(1, 1, 4, 0)));
    assertEquals(2, gathering.begun());
  }

  @Test
  void a_rank_whose_gang_has_ended_waits_for_all_others() {
    Gathering gathering = gang();
    assertEquals(WAIT, gathering.asked(offer(0, 0, 7, 1)));
    assertFalse(gathering.isRunning());
    assertEquals(BEGIN, gathering.asked(offer(1, 0, 7, 1)));
    gathering.begun();
    assertEquals(JOIN, gathering.asked(offer(1, 0, 7, 1)));
  }

  @Test
  void an_offer_of_an_attempt_that_fails_meanwhile_does_not_count() {
    Gathering gathering = new Gathering(2);
    assertEquals(WAIT, gathering.asked(offer(0, 0, 9, 0)));
    gathering.failed(0, 0);
    assertEquals(WAIT, gathering.asked(offer(1, 0, 4, 0)));
    assertEquals(BEGIN, gathering.asked(offer(0, 1, 3, 0)));
    assertEquals(4, gathering.newest().version);
  }

  @Test
  void when_flink_stops_one_rank_all_are_stopped_until_it_resets_them() {
    Gathering gathering = gang();
    gathering.failed(1, 0);
    gathering.stopped(new Stopped(1, 0));
    assertTrue(gathering.isRunning());
    gathering.stopped(new Stopped(1, 1));
    assertFalse(gathering.isRunning());
    assertEquals(STOPPED, gathering.asked(offer(0, 0, 7, 1)));
    gathering.reset();
    assertEquals(WAIT, gathering.asked(offer(0, 1, 7, 0)));
  }

  @Test
  void a_stop_is_under_way_from_the_first_rank_that_says_so_until_its_attempt_fails() {
    Gathering gathering = gang();
    assertFalse(gathering.isStopping());
    gathering.stopping(new Stopping(0, 0));
    gathering.stopping(new Stopping(1, 0));
    gathering.failed(0, 0);
    gathering.stopping(new Stopping(0, 0));
    assertTrue(gathering.isStopping());
    gathering.failed(1, 0);
    assertFalse(gathering.isStopping());
    gathering.stopping(new Stopping(0, 1));
    assertTrue(gathering.isStopping());
    gathering.reset();
    assertFalse(gathering.isStopping());
    gathering.stopped(new Stopped(0, 1));
    assertTrue(gathering.isStopping());
  }

  @Test
  void two_states_of_the_newest_version_are_refused() {
    Gathering gathering = new Gathering(2);
    gathering.asked(new Offer(0, 0, 5, "one", 0, ""));
    RejoinException error =
        assertThrows(
            RejoinException.class, () -> gathering.asked(new Offer(1, 0, 5, "other", 0, "")));
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains("rank 0 has one, rank 1 has other"), error.text());
  }

  private static RowFingerprint rows(String text) {
    ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    return new RowFingerprint.Maker().add(text.length(), bytes).made();
  }

  @Test
  void a_rank_that_comes_back_with_other_rows_is_refused_until_another_gang_begins() {
    Gathering gathering = new Gathering(2);
    gathering.asked(offer(0, 0, 0, 0).rows(rows("abc"), "here"));
    assertEquals(BEGIN, gathering.asked(offer(1, 0, 0, 0).rows(rows("de"), "there")));
    assertEquals(3, gathering.rows().mostBytes);
    assertEquals(1, gathering.rows().mostRanksOfProcess);
    gathering.begun();
    gathering.started(new Started(0, 0, 1));
    gathering.failed(1, 0);
    Offer other = offer(1, 1, 0, 0).rows(rows("df"), "there");
    RejoinException error = assertThrows(RejoinException.class, () -> gathering.asked(other));
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().startsWith("the rows of rank 1 are not those"), error.text());
    assertEquals(JOIN, gathering.asked(offer(1, 1, 0, 0).rows(rows("de"), "there")));
    gathering.reset();
    assertEquals(WAIT, gathering.asked(other));
    assertEquals(BEGIN, gathering.asked(offer(0, 0, 0, 0).rows(rows("abc"), "there")));
    assertEquals(2, gathering.rows().mostRanksOfProcess);
  }

  @Test
  void a_rank_that_runs_and_has_not_asked_yet_is_missing_and_not_absent() {
    Gathering gathering = new Gathering(3);
    gathering.ready(0, 0);
    gathering.ready(1, 0);
    gathering.asked(offer(0, 0, 0, 0));
    assertEquals(List.of(1, 2), gathering.missing());
    assertEquals(List.of(2), gathering.absent());
    gathering.failed(1, 0);
    assertEquals(List.of(1, 2), gathering.absent());
    gathering.ready(1, 1);
    gathering.failed(1, 0);
    assertEquals(List.of(2), gathering.absent());
    gathering.reset();
    assertEquals(List.of(0, 1, 2), gathering.absent());
  }
}
