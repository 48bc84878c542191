package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceReader;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The rule of owners and the numbers of rows, of all kinds of sources, in random orders. */
class NumberedSourceTest {
  private static final int LAST = 300;
  private static final int SPLITS = 7;
  private static final int WORLD = 3;
  private static final int TO_THE_END = 1_000_000;
  private static final int SEEDS = 200;

  static List<Numbers> sources() {
    return List.of(
        new Numbers(LAST, SPLITS),
        new Numbers.Pushed(LAST, SPLITS, false),
        new Numbers.Found(LAST, SPLITS));
  }

  private static NumberedSource<Long, NumberSequenceSplit, Collection<NumberSequenceSplit>>
      numbered(Source<Long, NumberSequenceSplit, Collection<NumberSequenceSplit>> source) {
    return new NumberedSource<>(source, "numbers");
  }

  private static SourceWorld<?, ?> run(Numbers source, Random random) throws Exception {
    SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
    world.run(random, TO_THE_END);
    assertTrue(world.hasEnded());
    return world;
  }

  /** A reader's rows as they came, the first time that each did. */
  private static List<Row> inOrder(SourceWorld<?, ?> world, int reader) {
    Map<String, Row> first = new LinkedHashMap<>();
    for (Row row : world.rows(reader)) {
      Row before = first.putIfAbsent(NumberedRow.split(row) + "#" + NumberedRow.number(row), row);
      assertTrue(before == null || before.equals(row), () -> row + " was " + before);
    }
    return new ArrayList<>(first.values());
  }

  private static void assertAreAllRows(Collection<Row> rows) {
    TreeMap<Long, Row> byNumber = new TreeMap<>();
    Map<String, Long> counts = new HashMap<>();
    for (Row row : rows) {
      byNumber.put(NumberedRow.row(row), row);
      counts.merge(NumberedRow.split(row), 1L, Long::sum);
    }
    assertEquals(LAST, byNumber.size());
    // Numbers begin at 0 and leave none out.
    rows.forEach(
        row ->
            assertTrue(
                NumberedRow.number(row) < counts.get(NumberedRow.split(row)), () -> "" + row));
  }

  @ParameterizedTest
  @MethodSource("sources")
  void each_row_has_a_number_in_its_split(Numbers source) throws Exception {
    SourceWorld<?, ?> world = run(source, new Random(1));
    assertAreAllRows(world.byPosition().values());
  }

  @ParameterizedTest
  @MethodSource("sources")
  void every_run_gives_each_reader_the_same_rows_in_the_same_order(Numbers source)
      throws Exception {
    SourceWorld<?, ?> first = run(source, new Random(0));
    for (long seed = 1; seed < SEEDS; seed++) {
      SourceWorld<?, ?> other = run(source, new Random(seed));
      for (int reader = 0; reader < WORLD; reader++) {
        if (source instanceof Numbers.Found) {
          // When it finds a split is the clock's doing; who gets it isn't.
          assertEquals(splits(first, reader), splits(other, reader), "seed " + seed);
        } else {
          assertEquals(first.rows(reader), other.rows(reader), "seed " + seed);
        }
      }
    }
  }

  private static List<String> splits(SourceWorld<?, ?> world, int reader) {
    return world.rows(reader).stream()
        .map(NumberedRow::split)
        .distinct()
        .sorted()
        .collect(Collectors.toList());
  }

  @ParameterizedTest
  @MethodSource("sources")
  void readers_that_die_get_their_own_splits_back_and_nobody_elses(Numbers source)
      throws Exception {
    SourceWorld<?, ?> undisturbed = run(source, new Random(0));
    for (long seed = 0; seed < SEEDS; seed++) {
      Random random = new Random(seed);
      SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
      SourceWorld.Snapshot newest = null;
      for (int deaths = 0; deaths < 6; deaths++) {
        world.run(random, random.nextInt(LAST));
        newest = random.nextBoolean() ? world.snapshot() : newest;
        world.run(random, random.nextInt(LAST));
        world.fail(random.nextInt(WORLD), newest);
      }
      world.run(random, TO_THE_END);
      assertTrue(world.hasEnded(), "seed " + seed);
      assertAreAllRows(world.byPosition().values());
      for (int reader = 0; reader < WORLD; reader++) {
        if (source instanceof Numbers.Found) {
          assertEquals(splits(undisturbed, reader), splits(world, reader), "seed " + seed);
        } else {
          assertEquals(undisturbed.rows(reader), inOrder(world, reader), "seed " + seed);
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("sources")
  void rows_keep_their_numbers_at_another_parallelism(Numbers source) throws Exception {
    for (long seed = 0; seed < SEEDS; seed++) {
      Random random = new Random(seed);
      SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
      Map<String, Row> all = new TreeMap<>();
      for (int restores = 0; restores < 4; restores++) {
        world.run(random, random.nextInt(LAST));
        SourceWorld.Snapshot snapshot = world.snapshot();
        addAll(all, world);
        world = SourceWorld.restored(numbered(source), 1 + random.nextInt(5), snapshot);
      }
      world.run(random, TO_THE_END);
      assertTrue(world.hasEnded(), "seed " + seed);
      addAll(all, world);
      assertAreAllRows(all.values());
    }
  }

  private static void addAll(Map<String, Row> all, SourceWorld<?, ?> world) {
    world
        .byPosition()
        .forEach(
            (position, row) -> {
              assertEquals(null, all.put(position, row), () -> position + " came twice");
            });
  }

  @Test
  void a_split_that_a_source_gives_twice_is_refused_with_its_id() throws Exception {
    SourceWorld<?, ?> world =
        SourceWorld.of(numbered(new Numbers.Pushed(LAST, SPLITS, true)), WORLD);
    RejoinException error =
        (RejoinException) assertThrows(SuppressRestartsException.class, world::deliver).getCause();
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains("source \"numbers\""), error.text());
    assertTrue(error.text().contains("gives split 3 to reader 0"), error.text());
  }

  @Test
  void a_reader_of_several_splits_that_does_not_say_which_one_a_row_is_of_is_refused()
      throws Exception {
    // Splits are pushed to a reader that was made for asking.
    Numbers.Pushed source =
        new Numbers.Pushed(LAST, SPLITS, false) {
          private static final long serialVersionUID = 1L;

          @Override
          public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext context) {
            return new IteratorSourceReader<>(context);
          }
        };
    SourceWorld<?, ?> world = SourceWorld.of(numbered(source), 1);
    world.deliver();
    RejoinException error =
        (RejoinException)
            assertThrows(SuppressRestartsException.class, () -> world.poll(0)).getCause();
    assertEquals(RejoinException.Code.BAD_ARGUMENT, error.code());
    assertTrue(error.text().contains("without saying of which split"), error.text());
    assertTrue(error.text().contains("SourceReaderBase"), error.text());
  }
}
