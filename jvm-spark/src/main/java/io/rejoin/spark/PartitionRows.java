package io.rejoin.spark;

import io.rejoin.RowFingerprint;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Iterator;

/** What the driver learns of a partition's rows. */
final class PartitionRows implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int partition;
  private final boolean sparse;
  private final RowFingerprint fingerprint;

  private PartitionRows(int partition, boolean sparse, RowFingerprint fingerprint) {
    this.partition = partition;
    this.sparse = sparse;
    this.fingerprint = fingerprint;
  }

  /**
   * Of a partition's blocks of rows.
   *
   * @param shape where a row's vector is, if it has one
   */
  static PartitionRows of(int partition, Iterator<byte[]> blocks, RowBlocks.Shape shape) {
    RowFingerprint.Maker maker = new RowFingerprint.Maker();
    boolean sparse = false;
    while (blocks.hasNext()) {
      byte[] block = blocks.next();
      // Where blocks end follows from the rows alone, so the digest is one of the rows.
      maker.add(RowBlocks.count(block), ByteBuffer.wrap(block));
      sparse = sparse || shape.anySparse(block);
    }
    return new PartitionRows(partition, sparse, maker.made());
  }

  int partition() {
    return partition;
  }

  /** Whether any row has its features as a sparse vector: then they are read as such. */
  boolean sparse() {
    return sparse;
  }

  RowFingerprint fingerprint() {
    return fingerprint;
  }
}
