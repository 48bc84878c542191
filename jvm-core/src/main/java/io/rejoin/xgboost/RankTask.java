package io.rejoin.xgboost;

/** Which rank a task is, and which try of the framework. */
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

  int rank() {
    return rank;
  }

  int stage() {
    return stage;
  }

  int task() {
    return task;
  }

  long joinMillis() {
    return joinMillis;
  }

  long finishMillis() {
    return finishMillis;
  }

  @Override
  public String toString() {
    return "rank " + rank + " (attempt " + stage + "." + task + ")";
  }
}
