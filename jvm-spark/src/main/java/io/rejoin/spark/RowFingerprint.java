package io.rejoin.spark;

import java.io.Serializable;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.commons.codec.binary.Hex;
import org.apache.commons.codec.digest.DigestUtils;

/**
 * What a partition's rows were, in their order: how many, how long, and a SHA-256 over all their
 * bytes.
 */
final class RowFingerprint implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int partition;
  private final long rows;
  private final long bytes;
  private final boolean sparse;
  private final byte[] digest;

  private RowFingerprint(int partition, long rows, long bytes, boolean sparse, byte[] digest) {
    this.partition = partition;
    this.rows = rows;
    this.bytes = bytes;
    this.sparse = sparse;
    this.digest = digest;
  }

  /**
   * Of a partition's blocks of rows.
   *
   * @param shape where a row's vector is, if it has one
   */
  static RowFingerprint of(int partition, Iterator<byte[]> blocks, RowBlocks.Shape shape) {
    MessageDigest sha = DigestUtils.getSha256Digest();
    long rows = 0;
    long bytes = 0;
    boolean sparse = false;
    while (blocks.hasNext()) {
      byte[] block = blocks.next();
      // Where blocks end follows from the rows alone, so the digest is one of the rows.
      sha.update(block);
      rows += RowBlocks.count(block);
      bytes += block.length;
      sparse = sparse || shape.anySparse(block);
    }
    return new RowFingerprint(partition, rows, bytes, sparse, sha.digest());
  }

  int partition() {
    return partition;
  }

  long rows() {
    return rows;
  }

  long bytes() {
    return bytes;
  }

  /** Whether any row has its features as a sparse vector: then they are read as such. */
  boolean sparse() {
    return sparse;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RowFingerprint
        && ((RowFingerprint) other).partition == partition
        && ((RowFingerprint) other).rows == rows
        && Arrays.equals(((RowFingerprint) other).digest, digest);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(digest);
  }

  @Override
  public String toString() {
    String hex = Hex.encodeHexString(digest).substring(0, 16);
    return rows + " rows, " + bytes + " bytes, SHA-256 " + hex + "...";
  }
}
