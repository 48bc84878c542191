package io.rejoin.xgboost;

import io.rejoin.Pairs;
import io.rejoin.RejoinException;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * One incarnation of a rank, from its join to the end of its task. Its calls belong to the task's
 * thread, but for {@link #free}, {@link #failure} and {@link #close}. Closing twice does nothing;
 * after that every other call throws BAD_STATE.
 */
public final class XgboostMember implements AutoCloseable {
  private final int rank;
  private final long handle;
  private final AtomicBoolean closed = new AtomicBoolean();

  XgboostMember(int rank, long handle) {
    this.rank = rank;
    this.handle = handle;
  }

  /** The rank, from 0; the same in every incarnation of a world. */
  public int rank() {
    return rank;
  }

  /** The version, checkpoint and round that the tracker's plan gave to this incarnation. */
  public Start start() {
    return new Start(Pairs.map(Native.memberStart(open())));
  }

  /** The checkpoint to start from; empty at the beginning. */
  public Optional<byte[]> checkpoint() {
    return Optional.ofNullable(Native.memberCheckpoint(open()));
  }

  /** What only this rank had at that checkpoint. */
  public Optional<byte[]> local() {
    return Optional.ofNullable(Native.memberLocal(open()));
  }

  /** Opens XGBoost's way in; returns the arguments of its communicator. */
  public Map<String, String> communicator(String wire) {
    return Pairs.map(Native.memberCommunicator(open(), wire));
  }

  /**
   * Ends the current phase and enters a version.
   *
   * @param version counts from 0
   * @param round the first round of the version
   * @param checkpoint the state after all rounds before, the same bytes at every rank; null only
   *     for the beginning
   * @param local what only this rank has; may be null
   * @param complete nothing is left to train
   * @throws RejoinException ROLLED_BACK or FENCED when this incarnation is over; MISMATCH when
   *     ranks differ
   */
  public void enter(int version, int round, byte[] checkpoint, byte[] local, boolean complete) {
    Native.memberEnter(open(), version, round, checkpoint, local, complete);
  }

  /**
   * The trainer begins this round, within a version. Only a rank that was started again has to
   * report it: by it is counted what it computes twice. No XGBoost call may be in progress.
   */
  public void beginRound(int round) {
    Native.memberBeginRound(open(), round);
  }

  /**
   * Shows a text at the job's driver, as an event {@code PRINTED}; when, nobody waits for. Up to 16
   * KiB of it, and up to 256 KiB in a second; what is left out is said with the next one.
   */
  public void print(String text) {
    Native.memberPrint(open(), text);
  }

  /**
   * Whether all ranks take a checkpoint now, before its turn, because the framework is about to
   * take hosts away ({@link io.rejoin.Tracker#checkpointWanted}). Rank 0's agent decides, the
   * others get its choice by a collective, and a rank that is started again is given the choices
   * that were made. So every rank has to call it at the same places. Never true where XGBoost's
   * collectives aren't served by Rejoin's own. No XGBoost call may be in progress.
   *
   * @param version the one that the rank is in
   */
  public boolean checkpointsEarly(int version) {
    return Native.memberCheckpointsEarly(open(), version);
  }

  /**
   * Bytes that this version adds to the agent's logs for this rank alone: what the worker has sent
   * through the bridge, to all its peers together, and short results of hooked calls. Exact: a rank
   * that repeats the version counts the same. Its peers may be ahead; no XGBoost call may be in
   * progress.
   */
  public long logged() {
    return Native.memberLogged(open());
  }

  /**
   * Bytes of the results of hooked calls in this version of which the agent keeps one copy for all
   * its ranks; exact, too.
   */
  public long loggedTogether() {
    return Native.memberLoggedTogether(open());
  }

  /**
   * Reports the end and waits until it is reached by all.
   *
   * @param rounds rounds trained
   * @param model bytes that must be the same at every rank
   * @param result what the driver gets, from rank 0; null from the others
   * @param timeoutMillis how long to wait for the others
   */
  public void finish(int rounds, byte[] model, byte[] result, long timeoutMillis) {
    Native.memberFinish(open(), rounds, model, result, timeoutMillis);
  }

  /**
   * Frees a worker that is stuck in a native call, from any thread; its calls end with this reason.
   */
  public void free(RejoinException.Code code, String message) {
    if (!closed.get()) {
      Native.memberFree(handle, code.name(), message);
    }
  }

  /** Why this member's calls end; empty while it is in order, or after it was closed. */
  public Optional<RejoinException> failure() {
    if (closed.get()) {
      return Optional.empty();
    }
    String[] words = Native.memberFailure(handle);
    return words == null ? Optional.empty() : Optional.of(new RejoinException(words[0], words[1]));
  }

  /** The task is over with this failure. */
  public void close(RejoinException.Code code, String message) {
    if (closed.compareAndSet(false, true)) {
      Native.memberClose(handle, code.name(), message);
    }
  }

  /** Ends the rank's part in the job without a failure. */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      Native.memberClose(handle, null, "");
    }
  }

  private long open() {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "rank " + rank + "'s member is closed");
    }
    return handle;
  }

  /** Where an incarnation starts, as the tracker's plan says. */
  public static final class Start {
    private final Map<String, String> values;

    Start(Map<String, String> values) {
      this.values = values;
    }

    /** How many ranks there are. */
    public int world() {
      return number("world");
    }

    /** How often the rank has been started before. */
    public int incarnation() {
      return number("incarnation");
    }

    /** The line of versions that it trains in. */
    public int lineage() {
      return number("lineage");
    }

    /** The version that it starts at. */
    public int version() {
      return number("version");
    }

    /** The next round to train. */
    public int round() {
      return number("round");
    }

    /** Nothing is left to train: only the end has to be reported. */
    public boolean complete() {
      return Boolean.parseBoolean(values.get("complete"));
    }

    /** The job has ended well already: the task has nothing to do. */
    public boolean over() {
      return Boolean.parseBoolean(values.get("over"));
    }

    /** Whether XGBoost's collectives are served by Rejoin's own, at all ranks of the job. */
    public boolean hooked() {
      return Boolean.parseBoolean(values.get("hooked"));
    }

    private int number(String key) {
      String value = values.get(key);
      if (value == null) {
        throw new RejoinException(
            RejoinException.Code.INTERNAL, "the native library gave no " + key);
      }
      return Integer.parseInt(value);
    }

    @Override
    public String toString() {
      return values.toString();
    }
  }
}
