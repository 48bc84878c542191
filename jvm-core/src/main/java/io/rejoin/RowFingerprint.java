package io.rejoin;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Locale;

/**
 * What the rows of a rank were, in their order: how many, how long, and a SHA-256 over all their
 * bytes. A rank that comes back has to have rows of the same fingerprint, or it would train another
 * model.
 */
public final class RowFingerprint implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int SHOWN_BYTES = 8;
  private static final int DIGEST_BYTES = 32;

  private final long rows;
  private final long bytes;
  private final byte[] digest;

  private RowFingerprint(long rows, long bytes, byte[] digest) {
    this.rows = rows;
    this.bytes = bytes;
    this.digest = digest;
  }

  /** One that {@link #write} has written. */
  public static RowFingerprint read(DataInput in) throws IOException {
    long rows = in.readLong();
    long bytes = in.readLong();
    byte[] digest = new byte[DIGEST_BYTES];
    in.readFully(digest);
    return new RowFingerprint(rows, bytes, digest);
  }

  /** Writes rows and bytes (8 bytes each, big-endian) and the digest (32). */
  public void write(DataOutput out) throws IOException {
    out.writeLong(rows);
    out.writeLong(bytes);
    out.write(digest);
  }

  /** How many rows. */
  public long rows() {
    return rows;
  }

  /** How long all of them are together, in bytes. */
  public long bytes() {
    return bytes;
  }

  /** The digest, as 64 hexadecimal digits. */
  public String digits() {
    return digits(DIGEST_BYTES);
  }

  /**
   * The error of a rank that has come back with rows of another fingerprint than this one.
   *
   * @param code MISMATCH, or INPUT_LOST where rows that were stored are lost
   * @param advice how that may have come, and what to do; ends without a full stop
   */
  public RejoinException isNot(
      RejoinException.Code code, RowFingerprint seen, int rank, String advice) {
    return new RejoinException(
        code,
        "the rows of rank "
            + rank
            + " are not those that it trained on: expected "
            + this
            + ", read "
            + seen
            + ". "
            + advice);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RowFingerprint
        && ((RowFingerprint) other).rows == rows
        && Arrays.equals(((RowFingerprint) other).digest, digest);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(digest);
  }

  @Override
  public String toString() {
    return rows + " rows, " + bytes + " bytes, SHA-256 " + digits(SHOWN_BYTES) + "...";
  }

  private String digits(int count) {
    StringBuilder hex = new StringBuilder();
    for (int i = 0; i < count; i++) {
      hex.append(String.format(Locale.ROOT, "%02x", digest[i]));
    }
    return hex.toString();
  }

  /** Makes one of rows that are put in one after the other. */
  public static final class Maker {
    private final MessageDigest sha;
    private long rows;
    private long bytes;

    /** Without rows yet. */
    public Maker() {
      try {
        sha = MessageDigest.getInstance("SHA-256");
      } catch (NoSuchAlgorithmException e) {
        throw new IllegalStateException("every Java platform has SHA-256", e);
      }
    }

    /**
     * The next rows, and the bytes that they are, from the buffer's position to its limit. What the
     * rows are has to follow from the bytes, wherever one call ends and the next one begins.
     */
    public Maker add(long more, ByteBuffer block) {
      rows += more;
      bytes += block.remaining();
      sha.update(block);
      return this;
    }

    /** The fingerprint; nothing is put in after that. */
    public RowFingerprint made() {
      return new RowFingerprint(rows, bytes, sha.digest());
    }
  }
}
