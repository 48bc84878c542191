package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class SharesTest {
  private static final long SEED = 20;

  /** A page whose rows are the numbers from {@code first} on. */
  private static byte[] page(int first, int rows) {
    var page = Page.begin(Page.Kind.DENSE_F32, 0, rows, 0, 0, 4L * rows);
    IntStream.range(first, first + rows).forEach(page::putFloat);
    return page.array();
  }

  private static List<Float> rows(byte[] page) {
    var labels = Page.of(page).content().asFloatBuffer();
    return IntStream.range(0, labels.remaining())
        .mapToObj(labels::get)
        .collect(Collectors.toList());
  }

  /** Stored pages of rows that are numbered through. */
  private static final class Stored {
    private final List<List<byte[]>> pages = new ArrayList<>();
    private final List<PartitionPages> partitions = new ArrayList<>();
    private int rows;

    Stored(int[]... rowsOfPages) {
      for (int[] partition : rowsOfPages) {
        List<byte[]> all = new ArrayList<>();
        for (int count : partition) {
          all.add(page(rows, count));
          rows += count;
        }
        partitions.add(PartitionPages.of(pages.size(), all.iterator()));
        pages.add(all);
      }
    }

    static Stored random(Random random) {
      return new Stored(
          IntStream.range(0, 1 + random.nextInt(5))
              .mapToObj(partition -> random.ints(random.nextInt(5), 1, 9).toArray())
              .toArray(int[][]::new));
    }

    List<Float> read(int rank, int world) {
      List<Float> read = new ArrayList<>();
      for (Shares.Run run : Shares.of(partitions, rank, world)) {
        for (int page = run.firstPage(); page <= run.lastPage(); page++) {
          read.addAll(rows(run.rows(page, pages.get(run.partition()).get(page))));
        }
      }
      return read;
    }

    List<Float> all() {
      return IntStream.range(0, rows).mapToObj(row -> (float) row).collect(Collectors.toList());
    }
  }

  @Test
  void in_every_world_each_row_is_read_once_and_in_its_order() {
    Random random = new Random(SEED);
    for (int trial = 0; trial < 300; trial++) {
      Stored stored = Stored.random(random);
      for (int world = 1; world <= 9; world++) {
        List<Float> read = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
          read.addAll(stored.read(rank, world));
        }
        assertEquals(stored.all(), read, "world " + world + " of " + stored.partitions);
      }
    }
  }

  @Test
  void ranks_have_as_many_rows_as_others_but_one_and_none_has_no_row() {
    Random random = new Random(SEED);
    for (int trial = 0; trial < 300; trial++) {
      Stored stored = Stored.random(random);
      for (int world = 1; world <= Math.min(9, stored.rows); world++) {
        if (world == stored.partitions.size()) {
          continue;
        }
        for (int rank = 0; rank < world; rank++) {
          int rows = stored.read(rank, world).size();
          int least = stored.rows / world;
          assertTrue(
              rows >= 1 && (rows == least || rows == least + 1),
              rows + " rows at rank " + rank + " of " + world + " of " + stored.partitions);
        }
      }
    }
  }

  @Test
  void a_world_of_as_many_ranks_as_partitions_reads_these() {
    Stored stored = new Stored(new int[] {5, 1}, new int[] {}, new int[] {2});
    assertEquals(stored.all().subList(0, 6), stored.read(0, 3));
    assertEquals(List.of(), stored.read(1, 3));
    assertEquals(stored.all().subList(6, 8), stored.read(2, 3));
    String runs = Shares.of(stored.partitions, 0, 3).toString();
    assertEquals("[partition 0 from page 0 row 0 to page 1 row 1]", runs);
  }

  @Test
  void a_share_may_be_the_middle_of_a_page_or_go_over_partitions() {
    Stored stored = new Stored(new int[] {2}, new int[] {8});
    assertEquals(Arrays.asList(0f, 1f, 2f, 3f), stored.read(0, 3));
    assertEquals(Arrays.asList(4f, 5f, 6f), stored.read(1, 3));
    assertEquals(Arrays.asList(7f, 8f, 9f), stored.read(2, 3));
  }
}
