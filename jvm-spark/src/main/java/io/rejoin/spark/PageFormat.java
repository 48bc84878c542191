package io.rejoin.spark;

import java.io.Serializable;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;

/** How the rows of a prepared data set become {@link Page}s. */
interface PageFormat extends Serializable {
  /**
   * The rows of a partition as pages, which follow from the rows alone: the same rows in the same
   * order give the same bytes. Each page is made when it is asked for.
   */
  Iterator<byte[]> pages(Iterator<InternalRow> rows);
}
