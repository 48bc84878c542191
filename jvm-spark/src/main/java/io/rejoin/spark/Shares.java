package io.rejoin.spark;

import java.util.ArrayList;
import java.util.List;

/**
 * Which of the stored rows each rank of a world reads: a pure function of the stored pages, the
 * rank and the world.
 *
 * <p>A world of as many ranks as there are prepared partitions reads these, one each. Any other one
 * reads the rows in their order, partition by partition, in parts that follow each other and differ
 * by one row at most. So every row is read by one rank of each world, whatever pages it lies in,
 * and a rank has rows if there are as many rows as ranks.
 */
final class Shares {
  private Shares() {}

  /** Pages of one partition that follow each other; of the first and the last one maybe a part. */
  static final class Run {
    private final int partition;
    private final int firstPage;
    private final int lastPage;
    private final int firstRow;
    private final int endRow;

    /**
     * A run.
     *
     * @param lastPage the last page, which is a part of the run
     * @param firstRow where it begins in the first page
     * @param endRow where it ends in the last page; this row is no part of it
     */
    Run(int partition, int firstPage, int lastPage, int firstRow, int endRow) {
      this.partition = partition;
      this.firstPage = firstPage;
      this.lastPage = lastPage;
      this.firstRow = firstRow;
      this.endRow = endRow;
    }

    int partition() {
      return partition;
    }

    int firstPage() {
      return firstPage;
    }

    int lastPage() {
      return lastPage;
    }

    /** The rows of one of its pages that belong to it. */
    byte[] rows(int page, byte[] bytes) {
      int first = page == firstPage ? firstRow : 0;
      return PageRows.of(bytes, first, page == lastPage ? endRow : Page.of(bytes).rows());
    }

    @Override
    public String toString() {
      return String.format(
          "partition %d from page %d row %d to page %d row %d",
          partition, firstPage, firstRow, lastPage, endRow);
    }
  }

  /** What a rank of a world reads, in this order. */
  static List<Run> of(List<PartitionPages> partitions, int rank, int world) {
    long before = 0;
    long begin = 0;
    long end = 0;
    if (world == partitions.size()) {
      for (int partition = 0; partition < rank; partition++) {
        begin += partitions.get(partition).rows();
      }
      end = begin + partitions.get(rank).rows();
    } else {
      long rows = partitions.stream().mapToLong(PartitionPages::rows).sum();
      begin = boundary(rows, rank, world);
      end = boundary(rows, rank + 1, world);
    }
    List<Run> runs = new ArrayList<>();
    for (PartitionPages partition : partitions) {
      long rows = partition.rows();
      if (Math.max(before, begin) < Math.min(before + rows, end)) {
        runs.add(run(partition, begin - before, end - before));
      }
      before += rows;
    }
    return runs;
  }

  /** How many rows the ranks before this one have; the first ones have one more than the others. */
  private static long boundary(long rows, int rank, int world) {
    return rows / world * rank + Math.min(rank, rows % world);
  }

  /** The rows of a partition from one on and up to another one, which may lie outside of it. */
  private static Run run(PartitionPages partition, long begin, long end) {
    int firstPage = -1;
    int lastPage = -1;
    int firstRow = 0;
    int endRow = 0;
    long before = 0;
    for (int page = 0; page < partition.count() && before < end; page++) {
      long rows = partition.page(page).rows();
      if (before + rows > begin) {
        if (firstPage < 0) {
          firstPage = page;
          firstRow = (int) Math.max(0, begin - before);
        }
        lastPage = page;
        endRow = (int) Math.min(rows, end - before);
      }
      before += rows;
    }
    return new Run(partition.partition(), firstPage, lastPage, firstRow, endRow);
  }
}
