package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.array.IntPrimitiveArraySerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

class SplitRowsTest {
  private static final String NAME = "s";

  /** What is kept, looked at row by row. */
  private final TreeMap<Long, String> expected = new TreeMap<>();

  private final Random random = new Random(7);
  private SplitRows<String> seen = new SplitRows<>(NAME, 0, 0L);

  private void add(int rows) {
    for (int i = 0; i < rows; i++) {
      if (random.nextInt(4) == 0) {
        seen.skip();
      } else {
        String row = "row " + seen.next();
        expected.put(seen.next(), row);
        seen.add(row, row.hashCode());
      }
    }
  }

  private static List<String> rows(SplitRows<String> part, long from, long to) throws IOException {
    List<String> rows = new ArrayList<>();
    part.copyTo(rows, from, to, String::hashCode);
    return rows;
  }

  /** A fingerprint of just these rows: of a split that has no others. */
  private long fingerprint(long from, long to) {
    SplitRows<String> alone = new SplitRows<>(NAME, from, 0L);
    for (long number = from; number < to; number++) {
      String row = expected.get(number);
      if (row == null) {
        alone.skip();
      } else {
        alone.add(row, row.hashCode());
      }
    }
    return alone.fingerprintOfAll();
  }

  private void compare() throws IOException {
    assertEquals(expected.size(), seen.size());
    for (int i = 0; i < 10; i++) {
      long from = seen.first() + random.nextInt((int) (seen.next() - seen.first()) + 1);
      long to = from + random.nextInt((int) (seen.next() - from) + 1);
      assertEquals(List.copyOf(expected.subMap(from, to).values()), rows(seen, from, to));
      assertEquals(expected.subMap(from, to).size(), seen.count(from, to));
      assertEquals(fingerprint(from, to), seen.fingerprint(from, to));
      int count = random.nextInt(20);
      List<Long> after = expected.tailMap(from).keySet().stream().collect(Collectors.toList());
      assertEquals(count < after.size() ? after.get(count) : seen.next(), seen.end(from, count));
    }
  }

  @Test
  void rows_come_and_go_and_what_is_said_of_them_is_as_if_each_was_looked_at() throws Exception {
    long all = 0;
    for (int step = 0; step < 300; step++) {
      add(random.nextInt(40));
      compare();
      long until = seen.first() + random.nextInt((int) (seen.next() - seen.first()) + 1);
      all += fingerprint(seen.first(), until);
      seen.dropUntil(until, Positions.NONE);
      expected.headMap(until).clear();
      assertEquals(all + fingerprint(seen.first(), seen.next()), seen.fingerprintOfAll());
      switch (step % 3) {
        case 0:
          seen = joined(inPieces());
          break;
        case 1:
          seen = written(seen);
          break;
        default:
      }
    }
  }

  private static SplitRows<String> written(SplitRows<String> rows) throws Exception {
    DataOutputSerializer out = new DataOutputSerializer(64);
    rows.write(StringSerializer.INSTANCE, String::hashCode, out);
    return SplitRows.read(
        StringSerializer.INSTANCE, new DataInputDeserializer(out.wrapAsByteBuffer()));
  }

  private List<SplitRows<String>> inPieces() {
    List<Integer> counts = new ArrayList<>();
    int left = seen.size();
    while (left > 0) {
      counts.add(1 + random.nextInt(left));
      left -= counts.get(counts.size() - 1);
    }
    return seen.pieces(counts.isEmpty() ? List.of(0) : counts);
  }

  private static SplitRows<String> joined(List<SplitRows<String>> pieces) {
    SplitRows<String> all = pieces.get(0);
    for (SplitRows<String> piece : pieces.subList(1, pieces.size())) {
      assertEquals(all.next(), piece.first());
      assertEquals(
          all.fingerprintOfAll() + piece.fingerprint(0, piece.next()), piece.fingerprintOfAll());
      all.append(piece);
    }
    return all;
  }

  @Test
  void a_copy_stays_as_it_is_when_rows_are_added_and_dropped() throws IOException {
    add(100);
    SplitRows<String> copy = seen.pieces(List.of(seen.size())).get(0);
    List<String> before = rows(copy, copy.first(), copy.next());
    seen.dropUntil(50, Positions.NONE);
    add(100);
    assertEquals(before, rows(copy, copy.first(), copy.next()));
    assertEquals(100, copy.next());
  }

  @Test
  void rows_that_follow_on_others_are_one_part_with_them() throws IOException {
    add(30);
    SplitRows<String> following = new SplitRows<>(NAME, 30, null);
    SplitRows<String> first = seen;
    seen = following;
    add(30);
    following.dropUntil(40, Positions.NONE);
    expected.subMap(30L, 40L).clear();
    assertNull(following.fingerprintOfAll());
    seen = first;
    add(10);
    seen.append(following);
    compare();
    assertEquals(60, seen.next());
    assertEquals(fingerprint(0, 60), seen.fingerprintOfAll());
  }

  @Test
  void a_row_that_was_changed_is_neither_given_again_nor_written() throws IOException {
    ContentHash<int[]> hash = row -> row[0];
    SplitRows<int[]> rows = new SplitRows<>(NAME, 0, 0L);
    List<int[]> all = List.of(new int[] {1}, new int[] {2}, new int[] {3});
    for (int[] row : all) {
      rows.add(row, hash.of(row));
    }
    List<int[]> given = new ArrayList<>();
    rows.copyTo(given, 0, 2, hash);
    rows.copyTo(given, 0, 3, hash);
    given.get(1)[0] = 7;
    RejoinException changed =
        assertThrows(RejoinException.class, () -> rows.copyTo(given, 0, 2, hash));
    assertEquals(RejoinException.Code.MISMATCH, changed.code());
    assertTrue(changed.text().contains("row 1 of s isn't what it was"), changed.text());
    DataOutputSerializer out = new DataOutputSerializer(64);
    assertThrows(
        RejoinException.class, () -> rows.write(IntPrimitiveArraySerializer.INSTANCE, hash, out));
  }
}
