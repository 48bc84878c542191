package io.rejoin.spark;

import io.rejoin.RowFingerprint;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;

/** Stored rows as a rank's task reads them, and the fingerprints that they have to have. */
final class StoredRows implements Serializable {
  private static final long serialVersionUID = 1L;

  private final JavaRDD<byte[]> blocks;
  private final ArrayList<RowFingerprint> fingerprints;

  StoredRows(JavaRDD<byte[]> blocks, List<RowFingerprint> fingerprints) {
    this.blocks = blocks;
    this.fingerprints = new ArrayList<>(fingerprints);
  }

  /** The blocks of rows, read from where they are stored. */
  JavaRDD<byte[]> blocks() {
    return blocks;
  }

  /** What each partition's rows have to be when they are read again; by partition. */
  List<RowFingerprint> fingerprints() {
    return Collections.unmodifiableList(fingerprints);
  }

  /**
   * Reads the partition of a rank once, before anything is made of it.
   *
   * @throws io.rejoin.RejoinException MISMATCH when its rows aren't those that were stored
   */
  void verify(Partition split, TaskContext context) {
    int rank = split.index();
    RowBlocks.Shape any = new RowBlocks.Shape(0, -1);
    RowFingerprint expected = fingerprints.get(rank);
    RowFingerprint seen =
        PartitionRows.of(rank, blocks.iterator(split, context), any).fingerprint();
    if (!seen.equals(expected)) {
      throw expected.isNot(
          seen,
          rank,
          "All copies of its partition were lost, and computing it again gave other rows or"
              + " another order; set spark.rejoin.input.replicas higher, or spark.rejoin.input"
              + " to checkpoint");
    }
  }
}
