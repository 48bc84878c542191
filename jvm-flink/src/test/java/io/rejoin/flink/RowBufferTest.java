package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class RowBufferTest {
  private static final VersionState START = VersionState.of(0, Positions.NONE, new byte[0]);

  private static RowBuffer<String> buffer(VersionState start, String split, String rows) {
    RowBuffer<String> buffer = new RowBuffer<>();
    add(buffer, split, rows);
    if (start != null) {
      buffer.load(start);
    }
    return buffer;
  }

  /** A letter is a row. */
  private static void add(RowBuffer<String> buffer, String split, String rows) {
    for (String row : rows.split("")) {
      buffer.add(split, row, row.hashCode());
    }
  }

  private static VersionState next(VersionState state, List<Share> shares) {
    Positions positions = state.positions().plus(List.of(shares));
    return VersionState.of(state.version() + 1, positions, new byte[0]);
  }

  /** Trains one version, of at most so many rows; gives its rows. */
  private static String train(RowBuffer<String> buffer, int size) throws InterruptedException {
    List<Share> shares = buffer.await(size, 1);
    String rows = String.join("", buffer.rows(shares));
    buffer.complete(next(buffer.newest(), shares));
    return rows;
  }

  private static RowBuffer<String> restored(RowBuffer<String> from) {
    RowBuffer<String> buffer = new RowBuffer<>();
    buffer.restore(from.newest(), from.kept());
    return buffer;
  }

  @Test
  void batches_are_taken_in_the_order_of_the_rows_and_of_the_wanted_size() throws Exception {
    RowBuffer<String> buffer = buffer(START, "s", "abcdefg");
    assertEquals("abc", train(buffer, 3));
    assertEquals("def", train(buffer, 3));
    buffer.end();
    assertFalse(buffer.hasEnded());
    assertEquals("g", train(buffer, 3));
    assertTrue(buffer.hasEnded());
    assertEquals("", train(buffer, 3));
  }

  @Test
  void a_rank_that_reads_its_input_again_drops_the_rows_that_are_in_the_model() throws Exception {
    RowBuffer<String> first = buffer(START, "s", "abcdefg");
    train(first, 3);
    RowBuffer<String> again = buffer(first.newest(), "s", "abcd");
    assertEquals("d", train(again, 3));
  }

  @Test
  void other_rows_than_the_model_was_trained_on_are_refused() throws Exception {
    RowBuffer<String> first = buffer(START, "s", "abcdefg");
    train(first, 3);
    for (String other : List.of("abx", "acb", "xbc")) {
      RejoinException error =
          assertThrows(
              RejoinException.class, () -> buffer(first.newest(), "s", other), () -> other);
      assertEquals(RejoinException.Code.MISMATCH, error.code());
    }
    for (String other : List.of("bX", "cb")) {
      RowBuffer<String> late = buffer(first.newest(), "s", "a");
      assertThrows(RejoinException.class, () -> add(late, "s", other));
    }
  }

  @Test
  void a_rank_goes_back_by_one_version_with_the_rows_that_it_has_kept() throws Exception {
    RowBuffer<String> buffer = buffer(START, "s", "abcdefgh");
    train(buffer, 3);
    VersionState older = buffer.newest();
    train(buffer, 3);
    RowBuffer<String> back = restored(buffer);
    back.load(older);
    assertEquals("def", train(back, 3));
    assertEquals("gh", train(back, 3));
  }

  @Test
  void a_restored_rank_goes_on_with_a_newer_model_than_its_own() throws Exception {
    RowBuffer<String> buffer = buffer(START, "s", "abcdefgh");
    train(buffer, 2);
    RowBuffer<String> old = restored(buffer);
    train(buffer, 2);
    train(buffer, 2);
    old.load(buffer.newest());
    add(old, "s", "ijk");
    assertEquals("ghij", train(old, 4));
  }

  @Test
  void a_version_that_an_earlier_incarnation_has_begun_waits_for_the_same_rows() throws Exception {
    RowBuffer<String> first = buffer(START, "s", "abcdefg");
    List<Share> shares = first.await(5, 1);
    RowBuffer<String> again = buffer(START, "s", "abc");
    CompletableFuture<List<String>> rows = new CompletableFuture<>();
    Thread trainer = new Thread(() -> complete(rows, again, shares));
    trainer.start();
    add(again, "s", "defg");
    assertEquals(List.of("a", "b", "c", "d", "e"), rows.get(20, TimeUnit.SECONDS));
  }

  private static void complete(
      CompletableFuture<List<String>> rows, RowBuffer<String> buffer, List<Share> shares) {
    try {
      rows.complete(buffer.rows(shares));
    } catch (InterruptedException | RuntimeException e) {
      rows.completeExceptionally(e);
    }
  }

  @Test
  void a_version_whose_rows_come_otherwise_the_second_time_is_refused() throws Exception {
    List<Share> shares = buffer(START, "s", "abcdefg").await(5, 1);
    assertThrows(RejoinException.class, () -> buffer(START, "s", "abcdX").rows(shares));
    RowBuffer<String> shorter = buffer(START, "s", "abc");
    shorter.end();
    assertThrows(RejoinException.class, () -> shorter.rows(shares));
  }

  @Test
  void rows_of_several_splits_are_taken_as_they_come_and_given_by_split() throws Exception {
    RowBuffer<String> buffer = new RowBuffer<>();
    buffer.load(START);
    add(buffer, "t", "1");
    add(buffer, "s", "ab");
    add(buffer, "t", "23");
    assertEquals("ab1", train(buffer, 3));
    add(buffer, "s", "c");
    assertEquals("c23", train(buffer, 3));
  }

  @Test
  void a_split_whose_earlier_rows_another_rank_has_waits_for_them() throws Exception {
    RowBuffer<String> one = buffer(START, "s", "abcd");
    RowBuffer<String> old = restored(one);
    old.load(START);
    RowBuffer<String> other = new RowBuffer<>();
    other.restore(null, List.of(new SplitRows<>("s", 4, null)));
    add(other, "s", "efg");
    other.load(START);
    VersionState state = START;
    List<String> trained = new ArrayList<>();
    for (int version = 0; version < 4; version++) {
      List<Share> first = old.await(3, 1);
      List<Share> second = other.await(3, 1);
      trained.add(String.join("", old.rows(first)) + String.join("", other.rows(second)));
      Positions positions = state.positions().plus(List.of(first, second));
      state = VersionState.of(state.version() + 1, positions, new byte[0]);
      old.complete(state);
      other.complete(state);
    }
    assertEquals(List.of("abc", "d", "efg", ""), trained);
  }

  @Test
  void rows_that_come_after_all_was_trained_are_refused_and_those_in_the_model_are_not()
      throws Exception {
    RowBuffer<String> buffer = buffer(START, "s", "abc");
    train(buffer, 3);
    RowBuffer<String> late = new RowBuffer<>();
    late.load(buffer.newest());
    late.finish();
    add(late, "s", "abc");
    assertEquals(0, late.waiting());
    assertThrows(RejoinException.class, () -> add(late, "s", "d"));
  }

  @Test
  void who_waits_for_rows_is_sent_away_when_the_task_ends() throws Exception {
    RowBuffer<String> buffer = buffer(START, "s", "a");
    CompletableFuture<Void> sent = new CompletableFuture<>();
    new Thread(
            () -> {
              assertThrows(InterruptedException.class, () -> buffer.await(5, 0));
              sent.complete(null);
            })
        .start();
    buffer.close();
    sent.get(20, TimeUnit.SECONDS);
    add(buffer, "s", "b");
    assertEquals(0, buffer.waiting());
  }
}
