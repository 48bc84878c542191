package io.rejoin;

/** Which rank a task is, which try of the framework, and how long it waits for the others. */
public final class RankTask {
  private final int rank;
  private final int stage;
  private final int task;
  private final long joinMillis;
  private final long finishMillis;

  /**
   * A try of a rank's task.
   *
   * @param rank 0-based
   * @param stage which restart of all ranks (Spark: stage attempt)
   * @param task which restart of this rank alone (Spark: task attempt)
   * @param joinMillis how long to wait for the others at the start
   * @param finishMillis how long to wait for the others at the end
   */
  public RankTask(int rank, int stage, int task, long joinMillis, long finishMillis) {
    this.rank = rank;
    this.stage = stage;
    this.task = task;
    this.joinMillis = joinMillis;
    this.finishMillis = finishMillis;
  }

  /** The rank, 0-based. */
  public int rank() {
    return rank;
  }

  /** Which restart of all ranks. */
  public int stage() {
    return stage;
  }

  /** Which restart of this rank alone. */
  public int task() {
    return task;
  }

  /** How long it waits for the others at the start, in milliseconds. */
  public long joinMillis() {
    return joinMillis;
  }

  /** How long it waits for the others at the end, in milliseconds. */
  public long finishMillis() {
    return finishMillis;
  }

  /**
   * Does nothing unless the framework wants the task's end.
   *
   * @throws RejoinException CANCELLED with the framework's reason
   */
  public void throwIfCancelled(CancelSignal cancel) {
    cancel
        .cancelled()
        .ifPresent(
            reason -> {
              throw new RejoinException(
                  RejoinException.Code.CANCELLED, this + " was cancelled: " + reason);
            });
  }

  /** What a failure of the user's own code is: it may not repeat, so the task is tried again. */
  public RejoinException ownCodeThrew(Exception thrown) {
    return new RejoinException(
        RejoinException.Code.IO, "the code of " + this + " threw " + thrown, thrown);
  }

  @Override
  public String toString() {
    return "rank " + rank + " (attempt " + stage + "." + task + ")";
  }
}
