package io.rejoin.xgboost;

import io.rejoin.RejoinException;
import java.io.Serializable;

/**
 * After how many rounds the next checkpoint is taken. It has to be the same decision at every rank,
 * so it is a function of settings and of the checkpoint's bytes, never of a clock.
 *
 * <p>Where the Booster is kept (XGBoost 3.3 and later) checkpoints change nothing in the model, and
 * the rhythm only trades their cost against rounds that a restarted rank computes again: every
 * round while the model is small against the work of a round, then so rarely that serialising it
 * stays below about 1.5 % of the time. Both costs are proportional to bytes: a round touches each
 * byte of a rank's input about as long as a checkpoint each byte of the model. Up to 3.2 every rank
 * loads its Booster anew at each checkpoint; there the rhythm is part of the result and comes from
 * the settings alone.
 */
public final class CheckpointRhythm implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final double SHARE = 0.015;
  private static final long LEAST_BYTES_PER_ROUND = 64 << 10;
  private static final int MOST_ROUNDS = 32;
  private static final int RELOAD_ROUNDS = 10;

  private final int fixedRounds;
  private final long bytesPerRound;

  private CheckpointRhythm(int fixedRounds, long bytesPerRound) {
    this.fixedRounds = fixedRounds;
    this.bytesPerRound = bytesPerRound;
  }

  /**
   * The rhythm for a version of XGBoost.
   *
   * @param rounds every so many rounds; 0 for the default of this version
   * @param inputBytesPerRank of the largest input of a rank, or an estimate; the same number at all
   *     ranks
   */
  public static CheckpointRhythm of(XgboostVersion version, int rounds, long inputBytesPerRank) {
    if (rounds < 0) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "a checkpoint every " + rounds + " rounds can't be; use 0 for the default");
    }
    int fixed = rounds > 0 ? rounds : version.keepsBooster() ? 0 : RELOAD_ROUNDS;
    return new CheckpointRhythm(
        fixed, Math.max(LEAST_BYTES_PER_ROUND, (long) (inputBytesPerRank * SHARE)));
  }

  /**
   * How many rounds follow a checkpoint of so many bytes (0 at the beginning) before the next one.
   * At least 1.
   */
  public int roundsAfter(long checkpointBytes) {
    if (fixedRounds > 0) {
      return fixedRounds;
    }
    long rounds = (checkpointBytes + bytesPerRound - 1) / bytesPerRound;
    return (int) Math.max(1, Math.min(MOST_ROUNDS, rounds));
  }

  /** For the terms that all ranks agree on. */
  @Override
  public String toString() {
    return fixedRounds > 0 ? "every-" + fixedRounds : "by-" + bytesPerRound;
  }
}
