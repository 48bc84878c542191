package io.rejoin.flink;

import io.rejoin.RowFingerprint;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/**
 * A rank asks which gang it belongs to, and says what it has: sent by a subtask to its coordinator
 * in the JobManager, again and again until it has an answer.
 */
final class Offer implements CoordinationRequest {
  private static final long serialVersionUID = 1L;

  /** How much all ranks' {@link #read} may be: Flink takes messages of 10 MiB by default. */
  static final int MOST_READ_BYTES = 4 << 20;

  /** What follows from more. */
  static String tooMuch(long bytes) {
    return bytes
        + " bytes say how far splits were read, and no more than "
        + MOST_READ_BYTES
        + " are told to others. Rows of splits that have moved, and are read again before Flink's"
        + " next checkpoint, aren't compared with those that the model was trained on";
  }

  /** The rank: the index of the subtask. */
  final int rank;

  /** Flink's number of the subtask's attempt. */
  final int attempt;

  /** The version of the state that it has; 0 for none. */
  final int version;

  /** The digest of that state's bytes; empty for none. */
  final String digest;

  /** The number of the gang that has ended for this rank; 0 for none. */
  final int ended;

  /** What was called at a wrong time, where the gang has ended by that; else empty. */
  final String misuse;

  /** The address at which this subtask's TaskManager reaches the JobManager; empty if unknown. */
  final String jobManager;

  /** What the rows are that it trains on; null where they are still to come. */
  final RowFingerprint rows;

  /** The process that it is in. */
  final String process;

  /** How many bytes of the result it has, should there be one; negative if it needs none. */
  final int resultFrom;

  /** How far splits were read of which it keeps rows since a restore; empty where it keeps none. */
  final byte[] read;

  Offer(int rank, int attempt, int version, String digest, int ended, String jobManager) {
    this(rank, attempt, version, digest, ended, "", jobManager, null, "", 0, new byte[0]);
  }

  private Offer(
      int rank,
      int attempt,
      int version,
      String digest,
      int ended,
      String misuse,
      String jobManager,
      RowFingerprint rows,
      String process,
      int resultFrom,
      byte[] read) {
    this.rank = rank;
    this.attempt = attempt;
    this.version = version;
    this.digest = digest;
    this.ended = ended;
    this.misuse = misuse;
    this.jobManager = jobManager;
    this.rows = rows;
    this.process = process;
    this.resultFrom = resultFrom;
    this.read = read;
  }

  /** The same of a rank that has all its rows. */
  Offer rows(RowFingerprint all, String where) {
    return new Offer(
        rank, attempt, version, digest, ended, misuse, jobManager, all, where, resultFrom, read);
  }

  /** The same of a rank whose gang has ended with BAD_STATE. */
  Offer misuse(String text) {
    return new Offer(
        rank, attempt, version, digest, ended, text, jobManager, rows, process, resultFrom, read);
  }

  /** The same of a rank that has so many bytes of the result. */
  Offer resultFrom(int bytes) {
    byte[] told = {};
    return new Offer(
        rank, attempt, version, digest, ended, misuse, jobManager, rows, process, bytes, told);
  }

  /** The same of a rank that was restored, and keeps rows of splits that were read so far. */
  Offer read(byte[] positions) {
    return new Offer(
        rank,
        attempt,
        version,
        digest,
        ended,
        misuse,
        jobManager,
        rows,
        process,
        resultFrom,
        positions);
  }
}
