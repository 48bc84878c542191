package io.rejoin;

import java.nio.ByteBuffer;

/**
 * The native methods but for those of XGBoost, in one place. Package-private: {@link Tracker},
 * {@link Agent} and {@link Communicator} are the public ways in.
 *
 * <p>Handles are positive numbers that the native side looks up in a table: a closed or unknown one
 * gives {@code BAD_STATE}, never a crash. Settings and facts travel as arrays of text, key after
 * value. Every failure is a {@link RejoinException} with a stable code. Calls that wait return or
 * throw at their deadline, and when the handle is closed by another thread.
 */
final class Native {
  private Native() {}

  /** Version of the native library; {@link NativeLibrary} refuses another one than its own. */
  static native String version();

  /** Level of the native log: off, error, warn, info, debug or trace. */
  static native void logLevel(String level);

  /** Java's threads run: {@link Watch} says so, as long as there are ranks. */
  static native void beat();

  /** Nobody says so any more. */
  static native void rest();

  /** Starts a tracker. Settings: see {@link Tracker.Settings}. */
  static native long trackerOpen(String[] settings, byte[] secret, Object folder);

  /** Job, secret and life of a tracker that has a folder of state; null if it has none. */
  static native String[] trackerState(long tracker);

  /** Where agents reach it, as host:port. */
  static native String trackerAddress(long tracker);

  /**
   * Reports to the tracker what the framework knows: {@code kind, key, value, ...} with kinds
   * {@code executor.gone} (executor, reason), {@code task.gone} (rank, stage, task, reason), {@code
   * task.leaves} (index), {@code checkpoint.wanted} (after, durable), {@code cancel} (code,
   * message).
   */
  static native void trackerNotify(long tracker, String[] fact);

  /** The next event as {@code kind, key, value, ...}; null when there is none in time. */
  static native String[] trackerPoll(long tracker, long timeoutMillis);

  /**
   * Rank 0's result; throws the job's error. Only after the event {@code job.ended} or {@code
   * job.failed}.
   */
  static native byte[] trackerResult(long tracker);

  /** Stops the tracker; agents learn that the job is over. Closing again does nothing. */
  static native void trackerClose(long tracker);

  /** The digest by which bytes are compared, 32 hexadecimal digits. */
  static native String digest(byte[] data);

  /**
   * Starts a process's part in a job of collectives. Settings: see {@link AgentSettings}. The
   * folder for durable checkpoints ({@link FolderCalls}) may be null.
   */
  static native long processOpen(String[] settings, byte[] secret, Object folder);

  /** Whether its agent has ended by itself: the job is over or its lease ran out. */
  static native boolean processOver(long process);

  /** Lets it go; communicators that were made of it stay usable. Closing again does nothing. */
  static native void processClose(long process);

  /**
   * In a job with spares: the task asks for a rank, and waits at most so long. What it joins as, as
   * key, value: rank, stage, task; over (true: the job has reached its end). Null while it stands
   * by.
   */
  static native String[] processStandBy(
      long process, int index, int stage, int task, long timeoutMillis);

  /** That task has ended, however it did. */
  static native void processStandDown(long process, int index, int stage, int task);

  /** Hands over the model that the job is to begin with, before a rank of the process joins. */
  static native void processHandOver(long process, int version, byte[] model);

  /**
   * The number of a rank's join, which {@link #joinWait} makes. {@code millis}: for the join, a
   * call, the end; 0 is the default. The process may be closed meanwhile.
   */
  static native long processJoin(
      long process, int rank, int stage, int task, String terms, long[] millis);

  /**
   * Joins, and waits for the rank's start: its communicator; 0: the job is over. The join's number
   * is void then.
   */
  static native long joinWait(long join);

  /**
   * Ends the wait of a join with CANCELLED, from any thread; does nothing while it doesn't wait
   * yet.
   */
  static native void joinCancel(long join, String reason);

  /** Joins as the rank that a launcher has started this process as, and waits as above. */
  static native long communicatorLaunched(String terms, long[] millis);

  /** Key, value: rank, world, incarnation. */
  static native String[] communicatorAbout(long communicator);

  /** Shows a text at the job's driver; when, nobody waits for. */
  static native void communicatorPrint(long communicator, String text);

  /** Local rank, local size, cross rank, cross size. */
  static native int[] communicatorPlacement(long communicator);

  /** How many checkpoints the job has taken. */
  static native int communicatorVersion(long communicator);

  /** The model to start from; null at version 0. */
  static native byte[] communicatorLoad(long communicator);

  /** Ends the version; the model is a direct buffer, from its first to its last byte. */
  static native void communicatorCheckpoint(long communicator, ByteBuffer model, String site);

  /** What only this rank had at the version that it starts from; null if nothing. */
  static native byte[] communicatorLoadOwn(long communicator);

  static native int[] communicatorFormer(long communicator);

  static native byte[] communicatorLoadOwnOf(long communicator, int rank);

  /** The same as a checkpoint with what only this rank has. */
  static native void communicatorCheckpointWithOwn(
      long communicator, ByteBuffer model, byte[] own, String site);

  /** The same as a checkpoint whose bytes the snapshot makes when a rank needs them. */
  static native void communicatorCheckpointLazy(long communicator, Snapshot snapshot, String site);

  /**
   * The number of the join of the rank's next incarnation in this process, after ROLLED_BACK. The
   * communicator's number is void then.
   */
  static native long communicatorAgain(long communicator);

  /** Reports the end and waits for all. */
  static native void communicatorFinish(long communicator, byte[] model);

  /**
   * Frees it, from any thread; {@code code} null: cleanly. A call that is under way ends with the
   * code, or CANCELLED. Closing again does nothing.
   */
  static native void communicatorClose(long communicator, String code, String message);

  /**
   * {@code name} null: element and reduction by number; or else the callbacks' fold under this
   * name, of elements of {@code element} bytes. {@code boot} null: no; empty: by site; or the name.
   */
  static native void communicatorAllreduce(
      long communicator,
      ByteBuffer buffer,
      int element,
      int reduction,
      String name,
      String site,
      boolean ring,
      String boot,
      boolean prepares,
      Callbacks callbacks);

  /** The callbacks' fold over serialized objects of at most {@code limit} bytes. */
  static native byte[] communicatorAllreduceObject(
      long communicator,
      byte[] object,
      int limit,
      String name,
      String site,
      boolean ring,
      String boot,
      Callbacks callbacks);

  /** The output has the length of this rank's part. */
  static native void communicatorReduceScatter(
      long communicator,
      ByteBuffer input,
      ByteBuffer output,
      int element,
      int reduction,
      String name,
      String site,
      boolean ring,
      String boot,
      boolean prepares,
      Callbacks callbacks);

  /** A rank's part: its first element in the upper half, its length in the lower one. */
  static native long communicatorPart(int rank, int world, int count, boolean ring);

  /** The root's bytes replace those of the buffer at all other ranks. */
  static native void communicatorBroadcast(
      long communicator,
      ByteBuffer buffer,
      int element,
      int root,
      String site,
      String boot,
      boolean prepares,
      Callbacks callbacks);

  /** The output has the length of all parts together. */
  static native void communicatorAllgather(
      long communicator,
      ByteBuffer input,
      ByteBuffer output,
      int element,
      String site,
      String boot,
      boolean prepares,
      Callbacks callbacks);

  /** The parts' lengths in bytes (8 bytes each, little endian), then the parts. */
  static native byte[] communicatorAllgatherV(
      long communicator, ByteBuffer input, int element, String site, String boot);

  /** Returns when all ranks have called it. */
  static native void communicatorBarrier(long communicator, String site, String boot);
}
