package io.rejoin.spark;

import org.apache.spark.sql.Dataset;

/** Rows that are divided among the workers, and how they become pages. */
final class PagedRows {
  final Dataset<?> rows;
  final PageFormat format;

  PagedRows(Dataset<?> rows, PageFormat format) {
    this.rows = rows;
    this.format = format;
  }

  /** For a training that takes any rows. */
  static PagedRows ofAnyKind(Dataset<?> rows) {
    return new PagedRows(rows, new SparkRowPages(rows.schema()));
  }
}
