package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.List;
import org.junit.jupiter.api.Test;

class PositionsTest {
  private static Share share(String split, long first, int rows) {
    return new Share(split, first, rows, 7 * rows);
  }

  private static void refused(String expected, Positions from, List<Share> one, List<Share> two) {
    RejoinException error =
        assertThrows(RejoinException.class, () -> from.plus(List.of(one, two), true));
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains(expected), error.text());
  }

  @Test
  void a_version_adds_the_rows_of_all_ranks() {
    Positions one =
        Positions.NONE.plus(List.of(List.of(share("a", 0, 3)), List.of(share("b", 0, 2))), true);
    Positions two = one.plus(List.of(List.of(share("a", 3, 4)), List.of()), true);
    assertEquals(7, two.consumed("a"));
    assertEquals(49, two.fingerprint("a"));
    assertEquals(2, two.consumed("b"));
    assertEquals(9, two.rows());
  }

  @Test
  void the_same_rows_from_two_ranks_are_refused_with_both() {
    refused(
        "ranks 0 and 1 both have row 0 of a",
        Positions.NONE,
        List.of(share("a", 0, 3)),
        List.of(share("a", 0, 2)));
  }

  @Test
  void rows_that_no_rank_has_are_refused_with_their_number() {
    refused(
        "no rank has row 0", Positions.NONE, List.of(share("a", 3, 0)), List.of(share("b", 0, 1)));
  }

  @Test
  void rows_that_a_rank_may_have_which_could_not_say_so_are_waited_for() {
    List<List<Share>> some = List.of(List.of(share("a", 3, 0)), List.of());
    assertEquals(0, Positions.NONE.plus(some, false).consumed("a"));
  }

  @Test
  void rows_that_another_rank_still_has_are_waited_for() {
    Positions next =
        Positions.NONE.plus(List.of(List.of(share("a", 3, 0)), List.of(share("a", 0, 1))), true);
    assertEquals(1, next.consumed("a"));
  }

  @Test
  void rows_that_are_in_the_model_already_are_refused() {
    Positions from = Positions.NONE.plus(List.of(List.of(share("a", 0, 3))), true);
    refused("expected them from row 3 on", from, List.of(share("a", 2, 2)), List.of());
  }

  @Test
  void a_state_of_another_releases_format_is_refused_with_both_numbers() {
    byte[] bytes = VersionState.of(3, Positions.NONE, new byte[] {7}).bytes();
    assertEquals(3, VersionState.of(bytes).version());
    bytes[Integer.BYTES - 1] = 99;
    RejoinException error = assertThrows(RejoinException.class, () -> VersionState.of(bytes));
    assertEquals(RejoinException.Code.INCOMPATIBLE, error.code());
    assertTrue(error.text().contains("format 99; this release of Rejoin reads 1"), error.text());
  }
}
