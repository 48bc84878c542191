package io.rejoin;

import java.util.Optional;

/**
 * The native runtime of this process for one job of collectives, for tasks of any framework whose
 * driver has a {@link Tracker}. (A process that {@code rejoin run} has started needs none: see
 * {@link Communicator#launched}.) It hosts any number of ranks, a thread each. Safe to use from
 * several threads; closing twice does nothing.
 */
public final class Agent extends ProcessAgent {
  private Agent(JobId job, Secret secret, AgentSettings settings, DurableCheckpoints durable) {
    super(job, secret, settings, durable, Native::processOpen);
  }

  /**
   * Starts one. It looks for its tracker in the background.
   *
   * @param settings tracker and place have to be given; logs and their spill directory may be (1
   *     GiB of memory, 16 GiB in the system's directory for temporary files), and durable
   *     checkpoints; what only XGBoost's bridge has (in-place calls) is refused
   * @throws RejoinException BAD_ARGUMENT for settings that can't work, IO when no port can be had,
   *     INCOMPATIBLE when the native library can't be loaded
   */
  public static Agent open(JobId job, Secret secret, AgentSettings settings) {
    return new Agent(job, secret, settings, null);
  }

  /**
   * The same with durable checkpoints in a folder that the program brings along, as Hadoop's file
   * systems are ({@code io.rejoin.spark.HadoopFolder}); one of this machine's is named in the
   * settings ({@link AgentSettings#durable}).
   *
   * @param durable null for none
   * @throws RejoinException as {@link #open(JobId, Secret, AgentSettings)}; BAD_ARGUMENT for a
   *     second folder in the settings, IO when the names in the folder can't be read
   */
  public static Agent open(
      JobId job, Secret secret, AgentSettings settings, DurableCheckpoints durable) {
    return new Agent(job, secret, settings, durable);
  }

  /**
   * Hands over the model that the job begins with ({@link Tracker.Settings#startFrom}), before a
   * rank of this process joins. At one process at least; the ranks of the others fetch it, as after
   * a death, and {@link Communicator#load} gives it to all. It is copied. A process that comes
   * later, to a job that has begun, may hand it over again.
   *
   * <p>If it isn't what the job begins with, the job ends with MISMATCH before any rank has
   * started, and the error names this process, what it handed over and what was expected. In a job
   * that has begun, what it didn't begin with does not count.
   *
   * @param version how many checkpoints had been taken, at least 1
   * @throws RejoinException BAD_ARGUMENT for a lower version; MISMATCH when this process holds
   *     other bytes of that version; OUT_OF_SPACE; BAD_STATE when the agent is closed
   */
  public void handOver(int version, byte[] model) {
    Native.processHandOver(open(), version, model);
  }

  /** {@link #join(int, int, int, String, Communicator.Limits, CancelSignal)}, never cancelled. */
  public Optional<Communicator> join(
      int rank, int stage, int task, String terms, Communicator.Limits limits) {
    return join(rank, stage, task, terms, limits, Optional::empty);
  }

  /**
   * Joins as a rank and waits until it can start: at first until all ranks are there, later until
   * the checkpoint that it starts from is here. Closing the agent ends the wait; an interrupt alone
   * doesn't.
   *
   * @param rank 0-based
   * @param stage which restart of all ranks this is (Spark: stage attempt)
   * @param task which restart of this rank alone (Spark: task attempt)
   * @param terms what this process assumes; must be equal for all of a job
   * @param cancel how the framework says that the task should end; asked while this waits
   * @return empty when the job has reached its end already: there is nothing to do
   * @throws RejoinException TIMED_OUT or MEMBERS_MISSING with the ranks that were waited for;
   *     TRACKER_UNREACHABLE; FENCED when a newer try is at work; INCOMPATIBLE for other terms;
   *     CANCELLED when the framework says so, or the agent was closed: the rank's slot is free
   *     then; the job's error when it is over with one
   */
  public Optional<Communicator> join(
      int rank,
      int stage,
      int task,
      String terms,
      Communicator.Limits limits,
      CancelSignal cancel) {
    long join = Native.processJoin(open(), rank, stage, task, terms, limits.millis());
    return Communicator.join(
        join, () -> isClosed() ? Optional.of("the agent was closed") : cancel.cancelled());
  }

  @Override
  protected String[] standBy(long handle, int index, int stage, int task, long timeoutMillis) {
    return Native.processStandBy(handle, index, stage, task, timeoutMillis);
  }

  @Override
  protected void standDown(long handle, int index, int stage, int task) {
    Native.processStandDown(handle, index, stage, task);
  }

  @Override
  protected boolean over(long handle) {
    return Native.processOver(handle);
  }

  /** Communicators that were made of it stay usable, and keep it alive. */
  @Override
  protected void close(long handle) {
    Native.processClose(handle);
  }
}
