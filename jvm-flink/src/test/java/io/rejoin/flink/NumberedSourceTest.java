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
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceReader;
import org.apache.flink.connector.base.source.hybrid.HybridSource;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The rule of owners and the numbers of rows, of all kinds of sources, in random orders. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
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
        new Numbers.Foretold(LAST, SPLITS),
        new Numbers.Allotted(LAST, SPLITS),
        new Numbers.Lone(LAST, SPLITS),
        new Numbers.Found(LAST, SPLITS),
        new Numbers.Hesitant(LAST, SPLITS));
  }

  private static NumberedSource<Long, NumberSequenceSplit, Collection<NumberSequenceSplit>>
      numbered(Source<Long, NumberSequenceSplit, Collection<NumberSequenceSplit>> source) {
    return new NumberedSource<>(source, "numbers");
  }

  private static SourceWorld<?, ?> run(Numbers source, Random random) throws Exception {
    SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
    world.run(random, TO_THE_END);
    assertTrue(world.hasEnded());
    int rows = 0;
    for (int reader = 0; reader < WORLD; reader++) {
      rows += world.rows(reader).size();
    }
    assertEquals(LAST, rows);
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
    TreeMap<Long, Row> ofRows = new TreeMap<>();
    Map<String, Long> counts = new HashMap<>();
    for (Row row : rows) {
      ofRows.put(NumberedRow.row(row), row);
      counts.merge(NumberedRow.split(row), 1L, Long::sum);
    }
    assertEquals(LAST, ofRows.size());
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
    assertAreAllRows(world.byNumber().values());
  }

  @ParameterizedTest
  @MethodSource("sources")
  void every_run_gives_each_reader_the_same_rows_in_the_same_order(Numbers source)
      throws Exception {
    SourceWorld<?, ?> first = run(source, new Random(0));
    for (long seed = 1; seed < SEEDS; seed++) {
      assertRowsAreAsIn(first, run(source, new Random(seed)), source, "seed " + seed);
    }
  }

  private static void assertRowsAreAsIn(
      SourceWorld<?, ?> first, SourceWorld<?, ?> other, Numbers source, String seed) {
    assertAreAllRows(other.byNumber().values());
    if (source.hasOwnersByTime()) {
      List<String> owned = new ArrayList<>();
      for (int reader = 0; reader < WORLD; reader++) {
        owned.addAll(splits(other.rows(reader)));
      }
      assertEquals(SPLITS, owned.size(), () -> "one owner each, not " + owned + ", " + seed);
      return;
    }
    for (int reader = 0; reader < WORLD; reader++) {
      assertEquals(first.rows(reader), inOrder(other, reader), seed);
    }
  }

  private static List<String> splits(List<Row> rows) {
    return rows.stream().map(NumberedRow::split).distinct().sorted().collect(Collectors.toList());
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
      assertRowsAreAsIn(undisturbed, world, source, "seed " + seed);
    }
  }

  @ParameterizedTest
  @MethodSource("sources")
  void a_restore_at_the_same_parallelism_leaves_each_reader_its_own_splits(Numbers source)
      throws Exception {
    SourceWorld<?, ?> undisturbed = run(source, new Random(0));
    for (long seed = 0; seed < SEEDS; seed++) {
      Random random = new Random(seed);
      List<List<Row>> rows = new ArrayList<>();
      SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
      for (int restores = 0; restores < 4; restores++) {
        world.run(random, random.nextInt(LAST));
        SourceWorld.Snapshot snapshot = world.snapshot();
        addAll(rows, world);
        world = SourceWorld.restored(numbered(source), WORLD, snapshot);
      }
      world.run(random, TO_THE_END);
      assertTrue(world.hasEnded(), "seed " + seed);
      addAll(rows, world);
      if (source.hasOwnersByTime()) {
        List<String> owned = new ArrayList<>();
        rows.forEach(of -> owned.addAll(splits(of)));
        assertEquals(SPLITS, owned.size(), "one owner each, not " + owned + ", seed " + seed);
        continue;
      }
      for (int reader = 0; reader < WORLD; reader++) {
        assertEquals(undisturbed.rows(reader), rows.get(reader), "seed " + seed);
      }
    }
  }

  private static void addAll(List<List<Row>> rows, SourceWorld<?, ?> world) {
    for (int reader = 0; reader < WORLD; reader++) {
      if (rows.size() == reader) {
        rows.add(new ArrayList<>());
      }
      rows.get(reader).addAll(world.rows(reader));
    }
  }

  @ParameterizedTest
  @MethodSource("sources")
  void a_reader_ends_while_others_are_in_the_middle_of_their_splits(Numbers source)
      throws Exception {
    // As ranks train in lock step, others may not get to the end of theirs before.
    for (long seed = 0; seed < SEEDS; seed++) {
      Random random = new Random(seed);
      SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
      world.run(random, random.nextInt(LAST));
      if (random.nextBoolean()) {
        world = SourceWorld.restored(numbered(source), WORLD, world.snapshot());
      }
      world.deliver();
      for (int rows = 0;
          rows < LAST + SPLITS && world.poll(0) != InputStatus.END_OF_INPUT;
          rows++) {
        world.deliver();
      }
      assertEquals(InputStatus.END_OF_INPUT, world.poll(0), "seed " + seed);
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
        .byNumber()
        .forEach(
            (number, row) -> {
              assertEquals(null, all.put(number, row), () -> number + " came twice");
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
  void a_split_that_a_source_gives_again_after_a_restore_is_refused() throws Exception {
    Numbers.Pushed source =
        new Numbers.Pushed(LAST, SPLITS, false) {
          private static final long serialVersionUID = 1L;

          @Override
          public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>>
              restoreEnumerator(
                  SplitEnumeratorContext<NumberSequenceSplit> context,
                  Collection<NumberSequenceSplit> left) {
            return createEnumerator(context);
          }
        };
    SourceWorld<?, ?> world = SourceWorld.of(numbered(source), WORLD);
    world.deliver();
    SourceWorld<?, ?> restored =
        SourceWorld.restored(numbered(source), WORLD - 1, world.snapshot());
    RejoinException error =
        (RejoinException)
            assertThrows(SuppressRestartsException.class, restored::deliver).getCause();
    assertEquals(RejoinException.Code.MISMATCH, error.code());
    assertTrue(error.text().contains("has given a split of this id before"), error.text());
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

  @Test
  void a_reader_that_asks_for_a_split_before_the_end_of_one_is_refused_at_flinks_checkpoint()
      throws Exception {
    Numbers source =
        new Numbers(LAST, SPLITS) {
          private static final long serialVersionUID = 1L;

          @Override
          @SuppressWarnings("try") // what closing throws is Flink's to say
          public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext context) {
            return new IteratorSourceReader<>(context) {
              @Override
              public InputStatus pollNext(ReaderOutput<Long> output) {
                InputStatus status = super.pollNext(output);
                context.sendSplitRequest();
                return status;
              }
            };
          }
        };
    SourceWorld<?, ?> world = SourceWorld.of(numbered(source), 1);
    world.deliver();
    world.poll(0);
    RejoinException error =
        (RejoinException) assertThrows(SuppressRestartsException.class, world::snapshot).getCause();
    assertTrue(error.text().contains("after it has asked for another one"), error.text());
  }

  @Test
  void a_source_of_several_sources_is_refused_when_it_is_given() {
    HybridSource<Long> source =
        HybridSource.builder(new NumberSequenceSource(1, 9))
            .addSource(new NumberSequenceSource(10, 19))
            .build();
    RejoinException error =
        assertThrows(
            RejoinException.class,
            () ->
                Rejoin.source(
                    StreamExecutionEnvironment.getExecutionEnvironment(),
                    source,
                    WatermarkStrategy.noWatermarks(),
                    "both"));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, error.code());
    assertTrue(error.text().contains("source \"both\" is a HybridSource"), error.text());
  }

  @Test
  void watermarks_of_a_split_and_of_the_reader_pass_unchanged() {
    List<String> passed = new ArrayList<>();
    SplitCounts<NumberSequenceSplit> counts = new SplitCounts<>("numbers");
    counts.begin(new NumberedSplit<>(new NumberSequenceSplit("s", 1, 9), 4, false));
    NumberingOutput<Long> output = new NumberingOutput<>(new Recorded("main", passed), counts);
    SourceOutput<Long> split = output.createOutputForSplit("s");
    split.collect(5L, 77);
    split.emitWatermark(new Watermark(76));
    split.markIdle();
    split.markActive();
    output.emitWatermark(new Watermark(70));
    output.markIdle();
    output.markActive();
    assertEquals(
        List.of(
            "s: " + NumberedRow.of("s", 4, 5L) + " at 77",
            "s: watermark 76",
            "s: idle",
            "s: active",
            "main: watermark 70",
            "main: idle",
            "main: active"),
        passed);
  }

  private static final class Recorded implements ReaderOutput<Row> {
    private final String name;
    private final List<String> passed;

    Recorded(String name, List<String> passed) {
      this.name = name;
      this.passed = passed;
    }

    @Override
    public void collect(Row row) {
      passed.add(name + ": " + row);
    }

    @Override
    public void collect(Row row, long timestamp) {
      passed.add(name + ": " + row + " at " + timestamp);
    }

    @Override
    public void emitWatermark(Watermark watermark) {
      passed.add(name + ": watermark " + watermark.getTimestamp());
    }

    @Override
    public void markIdle() {
      passed.add(name + ": idle");
    }

    @Override
    public void markActive() {
      passed.add(name + ": active");
    }

    @Override
    public SourceOutput<Row> createOutputForSplit(String split) {
      return new Recorded(split, passed);
    }

    @Override
    public void releaseOutputForSplit(String split) {}
  }

  @Test
  void timestamps_and_watermarks_are_those_of_the_rows() {
    NumberedWatermarks<Long> watermarks =
        new NumberedWatermarks<>(
            WatermarkStrategy.<Long>forMonotonousTimestamps()
                .withTimestampAssigner((row, before) -> row * 10));
    Row record = NumberedRow.of("s", 4, 5L);
    assertEquals(50, watermarks.createTimestampAssigner(null).extractTimestamp(record, 1));
    List<String> passed = new ArrayList<>();
    WatermarkGenerator<Row> generator = watermarks.createWatermarkGenerator(null);
    generator.onEvent(record, 50, new Recorded("main", passed));
    generator.onPeriodicEmit(new Recorded("main", passed));
    assertEquals(List.of("main: watermark 49"), passed);
  }
}
