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
 * stays below about 1.5 % of the time. Both costs are taken as proportional to bytes: a round
 * touches each byte of a rank's input about as long as a checkpoint each byte of the model, and
 * takes as long as for {@link #ROUND_BYTES} more, however small the input is. Up to 3.2 every rank
 * loads its Booster anew at each checkpoint; there the rhythm is part of the result and comes from
 * the settings alone.
 *
 * <p>The logs of two intervals are kept, so an interval is at most so long that both fit into the
 * memory for logs. How much a round adds to them is not known beforehand: where a checkpoint would
 * be followed by more than one round, the ranks agree on the most that any agent has logged per
 * round, and that number travels in the checkpoint. Of results that all ranks get an agent keeps
 * one copy; what a rank sends through the bridge is kept for each rank.
 */
public final class CheckpointRhythm implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final double SHARE = 0.015;

  /** Measured: docs/performance.md, "What recovery costs a training". */
  private static final long ROUND_BYTES = 300 << 10;

  private static final int MOST_ROUNDS = 128;
  private static final int RELOAD_ROUNDS = 10;
  private static final int KEPT_INTERVALS = 2;
  private static final int SAFE_TIMES = 4;

  private final int fixedRounds;
  private final long bytesPerRound;
  private final long logBytes;
  private final int ranksOfAnAgent;

  private CheckpointRhythm(int fixedRounds, long bytesPerRound, long logBytes, int ranksOfAnAgent) {
    this.fixedRounds = fixedRounds;
    this.bytesPerRound = bytesPerRound;
    this.logBytes = logBytes;
    this.ranksOfAnAgent = ranksOfAnAgent;
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
    if (inputBytesPerRank < 0) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "an input of " + inputBytesPerRank + " bytes per rank can't be; expected 0 or more");
    }
    int fixed = rounds > 0 ? rounds : version.keepsBooster() ? 0 : RELOAD_ROUNDS;
    return new CheckpointRhythm(fixed, bytesPerRound(inputBytesPerRank), Long.MAX_VALUE, 1);
  }

  /**
   * For each so many bytes of a checkpoint one round has to follow it, where the Booster is kept.
   *
   * @param inputBytesPerRank as of {@link #of}
   */
  public static long bytesPerRound(long inputBytesPerRank) {
    return (long) (SHARE * ROUND_BYTES + SHARE * inputBytesPerRank);
  }

  /**
   * The same with at most so many bytes for the logs of an agent's two kept intervals, which has at
   * most so many ranks; the same numbers at all ranks. What was set, and what is part of the
   * result, stays as it is.
   */
  public CheckpointRhythm withLogs(long bytesOfAnAgent, int ranksOfAnAgent) {
    return new CheckpointRhythm(fixedRounds, bytesPerRound, bytesOfAnAgent, ranksOfAnAgent);
  }

  /**
   * Bytes of an agent's logs, which keep so much for each of its ranks, and so much for all of them
   * together.
   */
  long logged(long each, long together) {
    return each * ranksOfAnAgent + together;
  }

  /**
   * Whether the ranks have to agree anew on what a round logs, after a checkpoint of so many bytes:
   * while nothing is known, and where logs of four times what is known would not fit. Should later
   * rounds log more than that, the logs go to disk, which is slower and no harm.
   *
   * @param loggedPerRound what they have agreed on before; 0 for nothing
   */
  boolean asksForLogged(long checkpointBytes, long loggedPerRound) {
    long rounds = roundsAfter(checkpointBytes, 0);
    boolean matters = logBytes < Long.MAX_VALUE && rounds > 1 && fixedRounds == 0;
    long safe = logBytes / KEPT_INTERVALS / SAFE_TIMES / Math.max(1, rounds);
    return matters && (loggedPerRound == 0 || loggedPerRound > safe);
  }

  /**
   * How many rounds follow a checkpoint of so many bytes (0 at the beginning) before the next one.
   * At least 1.
   *
   * @param loggedPerRound the most bytes that any agent logs in a round; 0 while that isn't known
   */
  public int roundsAfter(long checkpointBytes, long loggedPerRound) {
    if (fixedRounds > 0) {
      return fixedRounds;
    }
    long rounds = Math.min(MOST_ROUNDS, (checkpointBytes + bytesPerRound - 1) / bytesPerRound);
    if (loggedPerRound > 0) {
      rounds = Math.min(rounds, logBytes / KEPT_INTERVALS / loggedPerRound);
    }
    return (int) Math.max(1, rounds);
  }

  /** A text that is equal where the rhythm is: a part of the configuration fingerprint. */
  @Override
  public String toString() {
    return fixedRounds > 0
        ? "every-" + fixedRounds
        : "by-" + bytesPerRound + "-logs-" + logBytes + "-of-" + ranksOfAnAgent;
  }
}
