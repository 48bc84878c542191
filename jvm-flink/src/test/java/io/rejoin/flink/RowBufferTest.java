package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class RowBufferTest {
  private static final VersionState START = VersionState.of(0, Positions.NONE, new byte[0]);

  private static RowBuffer<String> buffer(VersionState start, String split, String rows) {
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> {});
    add(buffer, split, rows);
    if (start != null) {
      buffer.load(start);
    }
    return buffer;
  }

  private static void put(
      RowBuffer<String> buffer, String split, long number, String row, long hash) {
    new Inbox<>(buffer, 1).add(split, number, row, hash);
  }

  /** A letter is a row. */
  private static void add(RowBuffer<String> buffer, String split, String rows) {
    for (String row : rows.split("")) {
      put(buffer, split, Inbox.NEXT, row, row.hashCode());
    }
  }

  private static VersionState next(VersionState state, List<Share> shares) {
    Positions positions = state.positions().plus(List.of(shares), true);
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
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> {});
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
  void an_input_that_ends_before_the_rows_that_are_in_the_model_is_refused() throws Exception {
    RowBuffer<String> first = buffer(START, "s", "abcdefg");
    train(first, 3);
    RowBuffer<String> nothing = new RowBuffer<>(100, String::hashCode, () -> {});
    nothing.owns("s", false);
    nothing.load(first.newest());
    nothing.end();
    RejoinException error = assertThrows(RejoinException.class, () -> nothing.await(3, 0));
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains("rows 0 to 2 of s"), error.text());
    assertTrue(error.text().contains("ended after 0"), error.text());
    RowBuffer<String> enough = buffer(first.newest(), "s", "abc");
    enough.owns("s", false);
    enough.end();
    assertEquals("", train(enough, 3));
    // Rows with numbers are known wherever they come.
    RowBuffer<String> elsewhere = new RowBuffer<>(100, String::hashCode, () -> {});
    elsewhere.load(first.newest());
    elsewhere.end();
    assertEquals("", train(elsewhere, 3));
  }

  @Test
  @Timeout(60)
  void a_rank_whose_input_has_no_end_gives_nothing_before_what_is_in_the_model_has_come_again()
      throws Exception {
    RowBuffer<String> first = buffer(START, "s", "abcdefg");
    train(first, 3);
    BlockingQueue<String> looks = new LinkedBlockingQueue<>();
    RowBuffer<String> again = new RowBuffer<>(100, String::hashCode, () -> looks.add("look"));
    again.owns("s", true);
    again.load(first.newest());
    CompletableFuture<List<Share>> given = new CompletableFuture<>();
    new Thread(() -> await(given, again, 0)).start();
    assertEquals("look", looks.take(), "it waits");
    add(again, "s", "ab");
    assertFalse(given.isDone());
    add(again, "s", "c");
    assertEquals(List.of(), given.get(20, TimeUnit.SECONDS));
    add(again, "s", "de");
    assertEquals("de", train(again, 2));
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
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> {});
    buffer.load(START);
    add(buffer, "t", "1");
    add(buffer, "s", "ab");
    add(buffer, "t", "23");
    assertEquals("ab1", train(buffer, 3));
    add(buffer, "s", "c");
    assertEquals("c23", train(buffer, 3));
  }

  @Test
  void rows_that_come_before_the_model_is_known_are_taken_as_they_come() throws Exception {
    RowBuffer<String> early = new RowBuffer<>(100, String::hashCode, () -> {});
    add(early, "t", "1");
    add(early, "s", "ab");
    add(early, "t", "23");
    early.load(START);
    assertEquals("ab1", train(early, 3));
    VersionState older = early.newest();
    add(early, "s", "c");
    assertEquals("23", train(early, 2));
    early.load(older);
    assertEquals("23", train(early, 2), "back by one version");
    RowBuffer<String> behind = new RowBuffer<>(100, String::hashCode, () -> {});
    add(behind, "t", "1");
    add(behind, "s", "ab");
    add(behind, "t", "23");
    add(behind, "s", "c");
    behind.load(older);
    assertEquals("23", train(behind, 2), "the model is newer than its rows");
    assertEquals("c", train(behind, 2));
  }

  @Test
  void rows_of_several_splits_have_their_order_after_a_restore() throws Exception {
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> {});
    buffer.load(START);
    add(buffer, "t", "1");
    add(buffer, "s", "a");
    add(buffer, "t", "2");
    assertEquals("1", train(buffer, 1));
    VersionState older = buffer.newest();
    assertEquals("a", train(buffer, 1));
    add(buffer, "u", "x");
    add(buffer, "s", "b");
    RowBuffer<String> again = restored(buffer);
    add(again, "s", "c");
    again.load(buffer.newest());
    add(again, "t", "3");
    assertEquals("2x", train(again, 2));
    assertEquals("b", train(again, 1));
    assertEquals("c3", train(again, 2));
    RowBuffer<String> back = restored(buffer);
    add(back, "s", "c");
    back.load(older);
    assertEquals("a", train(back, 1));
    assertEquals("2x", train(back, 2));
  }

  @Test
  void a_split_whose_earlier_rows_another_rank_has_waits_for_them() throws Exception {
    RowBuffer<String> one = buffer(START, "s", "abcd");
    RowBuffer<String> old = restored(one);
    old.load(START);
    RowBuffer<String> other = new RowBuffer<>(100, String::hashCode, () -> {});
    other.restore(null, List.of(new SplitRows<>("s", 4, null)));
    add(other, "s", "efg");
    other.load(START);
    VersionState state = START;
    List<String> trained = new ArrayList<>();
    for (int version = 0; version < 4; version++) {
      List<Share> first = old.await(3, 1);
      List<Share> second = other.await(3, 1);
      trained.add(String.join("", old.rows(first)) + String.join("", other.rows(second)));
      Positions positions = state.positions().plus(List.of(first, second), true);
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
    RowBuffer<String> late = new RowBuffer<>(100, String::hashCode, () -> {});
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

  @Test
  void rows_that_come_before_flink_hears_of_a_failure_are_kept_for_its_checkpoint()
      throws Exception {
    RowBuffer<String> failed = buffer(START, "s", "abc");
    train(failed, 1);
    failed.close();
    add(failed, "s", "d");
    RowBuffer<String> again = restored(failed);
    again.owns("s", false);
    again.load(failed.newest());
    again.end();
    assertEquals("bcd", train(again, 10));
  }

  @Test
  void splits_that_were_read_take_no_memory_for_rows() throws Exception {
    RowBuffer<String> buffer = new RowBuffer<>(10_000, String::hashCode, () -> {});
    buffer.load(START);
    String rows = "abcdefgh".repeat(100);
    long before = usedHeap();
    for (int split = 0; split < 2_000; split++) {
      Inbox<String> inbox = new Inbox<>(buffer, rows.length());
      for (int row = 0; row < rows.length(); row++) {
        inbox.add("s" + split, row, "a row", 7);
      }
      List<Share> shares = buffer.await(rows.length(), 0);
      buffer.complete(next(buffer.newest(), shares));
    }
    long grown = usedHeap() - before;
    // With the arrays in which they were it would be 40 MB.
    assertTrue(grown < 8_000_000, () -> grown + " bytes more");
    assertEquals("ab", train(afterwards(buffer), 2));
  }

  /** Rows of the first split and of one that was long read. */
  private static RowBuffer<String> afterwards(RowBuffer<String> buffer) {
    number(buffer, "s3", 800, "a");
    number(buffer, "s7", 800, "b");
    return buffer;
  }

  private static long usedHeap() {
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }

  @Test
  void an_endless_input_that_is_cut_off_while_rows_come_again_may_be_tried_again()
      throws Exception {
    RowBuffer<String> first = buffer(START, "s", "abcdefg");
    List<Share> shares = first.await(5, 1);
    train(first, 3);
    RowBuffer<String> again = buffer(null, "s", "ab");
    again.owns("s", false);
    again.load(first.newest());
    again.cutOff();
    RejoinException error = assertThrows(RejoinException.class, () -> again.await(3, 0));
    assertEquals(RejoinException.Code.IO, error.code());
    assertTrue(error.text().contains("rows 0 to 2 of s"), error.text());
    assertTrue(error.text().contains("--drain"), error.text());
    RowBuffer<String> replaying = buffer(START, "s", "abc");
    replaying.cutOff();
    assertEquals(
        RejoinException.Code.IO,
        assertThrows(RejoinException.class, () -> replaying.rows(shares)).code());
  }

  /** Rows of a split from a number on; a dot is one that was filtered out. */
  private static void number(RowBuffer<String> buffer, String split, long first, String rows) {
    long number = first;
    for (String row : rows.split("")) {
      boolean isOut = row.equals(".");
      put(buffer, split, number++, isOut ? null : row, isOut ? 0 : row.hashCode());
    }
  }

  private static RowBuffer<String> numbered(VersionState start, long first, String rows) {
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> {});
    buffer.load(start);
    number(buffer, "s", first, rows);
    return buffer;
  }

  @Test
  void rows_that_were_filtered_out_fill_no_batch_and_count_as_trained() throws Exception {
    RowBuffer<String> buffer = numbered(START, 0, "..a.b...c.d..");
    assertEquals("ab", train(buffer, 2));
    assertEquals(8, buffer.newest().positions().consumed("s"));
    assertEquals("cd", train(buffer, 2));
    assertEquals(13, buffer.newest().positions().consumed("s"));
    RowBuffer<String> again = numbered(buffer.newest(), 0, "..a.b...c.d..e");
    assertEquals("e", train(again, 2));
  }

  @Test
  void a_row_that_is_filtered_out_the_second_time_only_is_refused() throws Exception {
    RowBuffer<String> buffer = numbered(START, 0, "abc");
    train(buffer, 3);
    assertThrows(RejoinException.class, () -> numbered(buffer.newest(), 0, "a.c"));
    assertThrows(RejoinException.class, () -> numbered(buffer.newest(), 0, ".abc"));
  }

  @Test
  void an_input_of_which_nothing_passes_the_filter_ends() throws Exception {
    RowBuffer<String> buffer = numbered(START, 0, ".....");
    buffer.end();
    assertTrue(buffer.hasEnded());
    assertEquals(0, buffer.waiting());
  }

  @Test
  void a_row_that_has_come_before_is_refused_with_its_number() {
    RowBuffer<String> buffer = numbered(START, 0, "abc");
    RejoinException error = assertThrows(RejoinException.class, () -> number(buffer, "s", 1, "b"));
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains("row 1 of s"), error.text());
  }

  @Test
  void rows_of_several_ranks_that_one_rank_restores_are_one_split_again() throws Exception {
    RowBuffer<String> first = numbered(START, 0, "abc");
    RowBuffer<String> second = numbered(START, 3, "de");
    RowBuffer<String> both = new RowBuffer<>(100, String::hashCode, () -> {});
    both.restore(null, second.kept());
    both.restore(null, first.kept());
    both.load(START);
    number(both, "s", 5, "f");
    assertEquals("abcdef", train(both, 6));
  }

  @Test
  void a_row_that_two_ranks_had_is_refused() {
    RowBuffer<String> first = numbered(START, 0, "abc");
    RowBuffer<String> second = numbered(START, 2, "c");
    RowBuffer<String> both = new RowBuffer<>(100, String::hashCode, () -> {});
    both.restore(null, first.kept());
    RejoinException error =
        assertThrows(RejoinException.class, () -> both.restore(null, second.kept()));
    assertEquals(RejoinException.Code.MISMATCH, error.code());
  }

  @Test
  void rows_that_are_read_again_at_another_rank_are_compared_too() throws Exception {
    RowBuffer<String> reader = numbered(START, 0, "abc");
    RowBuffer<String> keeper = new RowBuffer<>(100, String::hashCode, () -> {});
    keeper.restore(null, reader.kept());
    List<Positions> read = List.of(keeper.restoredRead().orElseThrow());
    number(reader, "s", 3, "de");
    train(reader, 5);
    RowBuffer<String> elsewhere = new RowBuffer<>(100, String::hashCode, () -> {});
    elsewhere.othersRead(read);
    elsewhere.load(reader.newest());
    number(elsewhere, "s", 3, "def");
    assertEquals("f", train(elsewhere, 1));
    RowBuffer<String> other = new RowBuffer<>(100, String::hashCode, () -> {});
    other.othersRead(read);
    other.load(reader.newest());
    assertThrows(RejoinException.class, () -> number(other, "s", 3, "dX"));
    RowBuffer<String> early = new RowBuffer<>(100, String::hashCode, () -> {});
    number(early, "s", 3, "dX");
    early.othersRead(read);
    assertThrows(RejoinException.class, () -> early.load(reader.newest()));
  }

  @Test
  void a_rank_that_was_not_restored_tells_others_of_no_rows() {
    RowBuffer<String> rows = numbered(START, 0, "abc");
    assertTrue(rows.restoredRead().isEmpty());
  }

  @Test
  @Timeout(60)
  void a_batch_waits_for_rows_that_are_not_another_ranks_turn_until_there_is_no_room()
      throws Exception {
    RowBuffer<String> blocked = new RowBuffer<>(4, String::hashCode, () -> {});
    blocked.load(START);
    number(blocked, "s", 3, "defg");
    assertTrue(blocked.isFull());
    List<Share> none = blocked.await(2, 0);
    assertEquals(0, none.get(0).numbers);
    assertEquals(3, none.get(0).first);
    RowBuffer<String> free = new RowBuffer<>(4, String::hashCode, () -> {});
    free.load(START);
    number(free, "s", 3, "de");
    CompletableFuture<List<Share>> waits = new CompletableFuture<>();
    new Thread(() -> await(waits, free, 2)).start();
    number(free, "t", 0, "1");
    assertFalse(waits.isDone());
    number(free, "t", 1, "2");
    assertEquals(2, waits.get(20, TimeUnit.SECONDS).get(1).numbers);
  }

  @Test
  @Timeout(60)
  void rows_whose_turn_has_come_fill_a_batch_that_waits_without_end() throws Exception {
    List<Share> before = numbered(START, 0, "abc").await(3, 0);
    RowBuffer<String> buffer = numbered(START, 3, "defg");
    assertEquals(4, buffer.waiting());
    buffer.complete(next(START, before));
    List<Share> shares = buffer.await(4, 0);
    assertEquals(List.of("d", "e", "f", "g"), buffer.rows(shares));
  }

  @Test
  void the_trainer_is_not_woken_before_a_batch_has_its_rows() throws Exception {
    BlockingQueue<String> looks = new LinkedBlockingQueue<>();
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> looks.add("look"));
    buffer.load(START);
    CompletableFuture<List<Share>> batch = new CompletableFuture<>();
    Thread trainer = new Thread(() -> await(batch, buffer, 3));
    trainer.start();
    looks.take();
    // Whoever is here has the lock that the trainer gives up when it waits, and needs to go on.
    synchronized (buffer) {
      add(buffer, "s", "ab");
      assertEquals(Thread.State.TIMED_WAITING, trainer.getState(), "two rows of three");
      add(buffer, "s", "c");
      assertEquals(Thread.State.BLOCKED, trainer.getState(), "all three");
    }
    assertEquals(3, batch.get(20, TimeUnit.SECONDS).get(0).numbers);
  }

  @Test
  void a_trainer_that_waits_for_more_rows_than_there_is_room_for_is_woken_by_the_last_one()
      throws Exception {
    BlockingQueue<String> looks = new LinkedBlockingQueue<>();
    RowBuffer<String> buffer = new RowBuffer<>(2, String::hashCode, () -> looks.add("look"));
    buffer.load(START);
    CompletableFuture<List<Share>> batch = new CompletableFuture<>();
    new Thread(() -> await(batch, buffer, 3)).start();
    looks.take();
    add(buffer, "s", "ab");
    assertEquals(2, batch.get(20, TimeUnit.SECONDS).get(0).numbers);
  }

  @Test
  void rows_that_have_to_come_again_wake_the_trainer_though_they_are_fewer_than_a_batch()
      throws Exception {
    List<Share> shares = buffer(START, "s", "ab").await(5, 1);
    BlockingQueue<String> looks = new LinkedBlockingQueue<>();
    RowBuffer<String> again = new RowBuffer<>(100, String::hashCode, () -> looks.add("look"));
    again.load(START);
    again.await(5, 1);
    looks.clear();
    CompletableFuture<List<String>> rows = new CompletableFuture<>();
    new Thread(() -> complete(rows, again, shares)).start();
    looks.take();
    add(again, "s", "ab");
    assertEquals(List.of("a", "b"), rows.get(20, TimeUnit.SECONDS));
  }

  private static void await(
      CompletableFuture<List<Share>> shares, RowBuffer<String> buffer, int size) {
    try {
      shares.complete(buffer.await(size, 0));
    } catch (InterruptedException | RuntimeException e) {
      shares.completeExceptionally(e);
    }
  }

  @Test
  @Timeout(60)
  void rows_that_have_come_are_brought_together_or_at_once_when_the_trainer_waits()
      throws Exception {
    BlockingQueue<String> looks = new LinkedBlockingQueue<>();
    RowBuffer<String> buffer = new RowBuffer<>(100, String::hashCode, () -> looks.add("look"));
    buffer.load(START);
    Inbox<String> inbox = new Inbox<>(buffer, 3);
    inbox.add("s", Inbox.NEXT, "a", 1);
    assertEquals(0, buffer.waiting());
    CompletableFuture<List<Share>> batch = new CompletableFuture<>();
    new Thread(() -> await(batch, buffer, 2)).start();
    assertEquals("look", looks.take());
    inbox.bring();
    inbox.add("s", Inbox.NEXT, "b", 2);
    assertEquals(2, batch.get(20, TimeUnit.SECONDS).get(0).numbers);
    for (int row = 3; row < 6; row++) {
      inbox.add("s", Inbox.NEXT, "c", row);
    }
    assertEquals(5, buffer.waiting());
    assertTrue(looks.isEmpty());
  }

  @Test
  @Timeout(60)
  void rows_that_an_earlier_incarnation_gave_have_room_behind_those_of_another_split()
      throws Exception {
    List<Share> shares = buffer(START, "s", "ab").await(2, 0);
    BlockingQueue<String> looks = new LinkedBlockingQueue<>();
    RowBuffer<String> again = new RowBuffer<>(4, String::hashCode, () -> looks.add("look"));
    again.load(START);
    add(again, "t", "1234");
    assertTrue(again.isFull());
    CompletableFuture<List<String>> rows = new CompletableFuture<>();
    new Thread(() -> complete(rows, again, shares)).start();
    assertEquals("look", looks.take());
    assertFalse(again.isFull());
    add(again, "s", "ab");
    assertEquals(List.of("a", "b"), rows.get(20, TimeUnit.SECONDS));
    assertTrue(again.isFull());
  }

  @Test
  void there_is_room_again_when_a_quarter_of_it_is_free() throws Exception {
    List<String> looks = new ArrayList<>();
    RowBuffer<String> buffer = new RowBuffer<>(8, String::hashCode, () -> looks.add("look"));
    buffer.load(START);
    add(buffer, "s", "abcdefgh");
    assertTrue(buffer.isFull());
    train(buffer, 1);
    assertTrue(buffer.isFull());
    assertEquals(0, looks.size());
    train(buffer, 1);
    assertFalse(buffer.isFull());
    assertEquals(1, looks.size());
  }
}
