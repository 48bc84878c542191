package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.RandomAccessFile;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.storage.RDDBlockId;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class PageStoreTest {
  private static final int PARTITIONS = 2;
  private static final long ROWS = 130_000;

  /** What is added to each number when rows are made. */
  private static volatile long shift;

  /** How many tries of a task are still to fail, with other rows than the ones after them. */
  private static final AtomicInteger FAILURES = new AtomicInteger();

  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,4]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  @BeforeEach
  void rowsAreTheSame() {
    shift = 0;
    FAILURES.set(0);
  }

  private static long made(long number) {
    int failing = FAILURES.get();
    if (failing > 0
        && TaskContext.getPartitionId() == 0
        && number == ROWS / PARTITIONS - 1
        && FAILURES.compareAndSet(failing, failing - 1)) {
      throw new IllegalStateException("this try fails, as wanted");
    }
    return number + shift + failing;
  }

  private static Dataset<Row> rows() {
    return session
        .range(0, ROWS, 1, PARTITIONS)
        .select(
            functions
                .udf((UDF1<Long, Long>) PageStoreTest::made, DataTypes.LongType)
                .asNondeterministic()
                .apply(functions.col("id")));
  }

  private static InputPreparation preparation() {
    return new InputPreparation(
        SparkSettings.of(Collections.emptyMap()), session, Optional.empty());
  }

  private static PreparedInput prepare(Dataset<Row> rows) {
    return preparation().prepare("training", () -> PagedRows.ofAnyKind(rows), PARTITIONS);
  }

  private static List<Row> read(PreparedInput input) {
    return preparation().frame(input, rows().schema()).collectAsList();
  }

  /** The block of a page that is stored now. */
  private static RDDBlockId block(int partition, int page) {
    List<Integer> stored =
        List.copyOf(
            JavaSparkContext.fromSparkContext(session.sparkContext()).getPersistentRDDs().keySet());
    assertEquals(1, stored.size());
    return new RDDBlockId(stored.get(0), partition + page * PARTITIONS);
  }

  private static boolean isStored(RDDBlockId block) {
    return SparkEnv.get().blockManager().master().getLocations(block).nonEmpty();
  }

  @Test
  void each_page_is_a_block_of_its_own_and_all_are_freed() {
    RDDBlockId second;
    try (PreparedInput input = prepare(rows())) {
      PartitionPages pages = input.stored().partitions().get(1);
      assertTrue(pages.count() > 1, pages.toString());
      for (int page = 0; page < pages.count(); page++) {
        assertTrue(isStored(block(1, page)), "page " + page);
      }
      assertFalse(isStored(block(1, pages.count())));
      assertEquals(rows().collectAsList(), read(input));
      second = block(1, 1);
    }
    assertFalse(isStored(second));
  }

  @Test
  void a_page_that_is_lost_is_made_again_and_stored() {
    try (PreparedInput input = prepare(rows())) {
      RDDBlockId lost = block(1, 1);
      SparkEnv.get().blockManager().removeBlock(lost, true);
      assertFalse(isStored(lost));
      assertEquals(rows().collectAsList(), read(input));
      assertTrue(isStored(lost));
      assertTrue(isStored(block(1, 0)));
    }
  }

  @Test
  void a_damaged_page_is_never_given_but_made_again() throws Exception {
    for (long at : new long[] {-1, -1000, 0}) {
      try (PreparedInput input = prepare(rows())) {
        RDDBlockId damaged = block(0, 1);
        File file = SparkEnv.get().blockManager().diskBlockManager().getFile(damaged);
        try (RandomAccessFile bytes = new RandomAccessFile(file, "rw")) {
          long place = at < 0 ? bytes.length() + at : at;
          bytes.seek(place);
          int was = bytes.read();
          bytes.seek(place);
          bytes.write(was ^ 1);
        }
        assertEquals(rows().collectAsList(), read(input), "byte " + at);
      }
    }
  }

  @Test
  void rows_that_are_others_when_they_are_made_again_are_an_error() {
    try (PreparedInput input = prepare(rows())) {
      shift = 1;
      SparkEnv.get().blockManager().removeBlock(block(1, 1), true);
      Exception failure = assertThrows(Exception.class, () -> read(input));
      assertTrue(
          failure.getMessage().contains("the rows of rank 1 are not those"), failure.toString());
      assertTrue(failure.getMessage().contains("spark.rejoin.input.replicas"), failure.toString());
    }
  }

  @Test
  void what_a_failed_try_has_stored_is_not_mixed_with_the_rows_of_the_next_one() {
    FAILURES.set(1);
    try (PreparedInput input = prepare(rows())) {
      assertEquals(0, FAILURES.get(), "no try has failed");
      assertEquals(rows().collectAsList(), read(input));
    }
  }
}
