package io.rejoin.xgboost;

import io.rejoin.AgentSettings;
import io.rejoin.CancelSignal;
import io.rejoin.DurableCheckpoints;
import io.rejoin.JobId;
import io.rejoin.ProcessAgent;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Watch;

/**
 * The agent of a process whose ranks are trained by XGBoost, which Rejoin's bridge or hook serves.
 */
public final class XgboostAgent extends ProcessAgent {
  private XgboostAgent(
      JobId job, Secret secret, AgentSettings settings, DurableCheckpoints durable) {
    super(job, secret, settings, durable, Native::agentOpen);
  }

  /**
   * Starts an agent. It looks for its tracker in the background.
   *
   * @throws RejoinException BAD_ARGUMENT for settings that can't work, IO when no port can be had,
   *     INCOMPATIBLE when the native library can't be loaded
   */
  public static XgboostAgent open(JobId job, Secret secret, AgentSettings settings) {
    return new XgboostAgent(job, secret, settings, null);
  }

  /**
   * The same with durable checkpoints. They have the common model and no rank's local state, so a
   * custom evaluation ({@link TrainingSpec#custom}), whose scores are that, can't go on from them.
   *
   * @param durable null for none
   * @throws RejoinException as {@link #open(JobId, Secret, AgentSettings)}; BAD_ARGUMENT for every
   *     0 versions, IO when the names in the folder can't be read
   */
  public static XgboostAgent open(
      JobId job, Secret secret, AgentSettings settings, DurableCheckpoints durable) {
    return new XgboostAgent(job, secret, settings, durable);
  }

  /**
   * Joins as a rank and waits until all needed ranks are there and the checkpoint is fetched, or
   * the job is over.
   *
   * @param rank 0-based
   * @param stage which restart of all ranks this is (Spark: stage attempt)
   * @param task which restart of this rank alone (Spark: task attempt)
   * @param terms what this process can do and assumes; must be equal for all of a job
   * @param timeoutMillis how long to wait
   * @param cancel how the framework says that the task should end; asked while this waits
   * @throws RejoinException TIMED_OUT or MEMBERS_MISSING with the ranks that were waited for;
   *     TRACKER_UNREACHABLE; FENCED when a newer try is at work; INCOMPATIBLE for other terms;
   *     CANCELLED when the framework says so; the job's error when it is over with one
   */
  public XgboostMember join(
      int rank, int stage, int task, String terms, long timeoutMillis, CancelSignal cancel) {
    long handle = open();
    Watch watch = Watch.overJoin(reason -> cancelJoin(handle, rank, stage, task, reason), cancel);
    try {
      return new XgboostMember(
          rank, Native.memberJoin(handle, rank, stage, task, terms, timeoutMillis));
    } finally {
      watch.close();
    }
  }

  private static void cancelJoin(long handle, int rank, int stage, int task, String reason) {
    String code = RejoinException.Code.CANCELLED.name();
    Native.memberCancelJoin(handle, rank, stage, task, code, reason);
  }

  @Override
  protected String[] standBy(long handle, int index, int stage, int task, long timeoutMillis) {
    return Native.agentStandBy(handle, index, stage, task, timeoutMillis);
  }

  @Override
  protected void standDown(long handle, int index, int stage, int task) {
    Native.agentStandDown(handle, index, stage, task);
  }

  @Override
  protected boolean over(long handle) {
    return Native.agentOver(handle);
  }

  @Override
  protected void close(long handle) {
    Native.agentClose(handle);
  }
}
