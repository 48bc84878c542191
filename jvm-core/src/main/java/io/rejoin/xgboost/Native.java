package io.rejoin.xgboost;

/**
 * The native methods of XGBoost's agents and members, in one place; {@code io.rejoin.Native} says
 * how handles, settings and failures travel. They are there once {@link
 * io.rejoin.NativeLibrary#load} has returned.
 */
final class Native {
  private Native() {}

  /**
   * Starts the agent of this process for one job. Settings: see {@link io.rejoin.AgentSettings}.
   */
  static native long agentOpen(String[] settings, byte[] secret, Object folder);

  /** Whether the agent has ended by itself: the job is over or its lease ran out. */
  static native boolean agentOver(long agent);

  /** Stops the agent and frees what it holds. */
  static native void agentClose(long agent);

  /** As {@code io.rejoin.Native.processStandBy}. */
  static native String[] agentStandBy(
      long agent, int index, int stage, int task, long timeoutMillis);

  /** As {@code io.rejoin.Native.processStandDown}. */
  static native void agentStandDown(long agent, int index, int stage, int task);

  /**
   * Joins as a rank and waits for the start (all needed ranks are there, checkpoint fetched) or the
   * job's end.
   */
  static native long memberJoin(
      long agent, int rank, int stage, int task, String terms, long timeoutMillis);

  /**
   * Ends the wait of a {@link #memberJoin}, from any thread, with this reason; does nothing when
   * that try isn't waiting.
   */
  static native void memberCancelJoin(
      long agent, int rank, int stage, int task, String code, String message);

  /**
   * What was decided, as key, value: incarnation, lineage, version, round (next to train), complete
   * (true: nothing left to train), over (true: the job has ended already, the task has nothing to
   * do).
   */
  static native String[] memberStart(long member);

  /** The checkpoint to start from; null at the beginning. */
  static native byte[] memberCheckpoint(long member);

  /** What only this rank had at that checkpoint; null if nothing. */
  static native byte[] memberLocal(long member);

  /**
   * Opens XGBoost's way in and returns the communicator's arguments as key, value. {@code wire}:
   * "until-3.2" or "from-3.3".
   */
  static native String[] memberCommunicator(long member, String wire);

  /**
   * Ends the current phase (drained: every byte that the worker wrote is logged) and enters version
   * {@code version}, whose first round is {@code round}, with this checkpoint (null only at version
   * 0). {@code local} may be null. {@code complete}: nothing is left to train.
   */
  static native void memberEnter(
      long member, int version, int round, byte[] checkpoint, byte[] local, boolean complete);

  /** The worker begins a round within a version. */
  static native void memberBeginRound(long member, int round);

  /** Shows a text at the job's driver; when, nobody waits for. */
  static native void memberPrint(long member, String text);

  /**
   * Whether all ranks take a checkpoint now, before its turn; every rank calls it at the same
   * places, in this version.
   */
  static native boolean memberCheckpointsEarly(long member, int version);

  /** Bytes that this version logs for the rank alone, when all that its worker wrote is counted. */
  static native long memberLogged(long member);

  /** Bytes of results that this version logs once for all ranks of the agent. */
  static native long memberLoggedTogether(long member);

  /** Reports the end, rank 0 with the result, and waits until it is reached by all. */
  static native void memberFinish(
      long member, int rounds, byte[] model, byte[] result, long timeoutMillis);

  /**
   * Frees a worker that is stuck in a native call, from any thread; its calls end with this reason.
   */
  static native void memberFree(long member, String code, String message);

  /** Why this member's calls end, as code, message; null while it is in order. */
  static native String[] memberFailure(long member);

  /**
   * The task is over; {@code code} null: cleanly, or else with this failure. Closing again does
   * nothing.
   */
  static native void memberClose(long member, String code, String message);
}
