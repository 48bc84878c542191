package io.rejoin.it;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerBlockUpdated;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.storage.BlockUpdatedInfo;

/**
 * What Spark did during a run, counted from its listener events: executors started, tasks started,
 * and the bytes that moved once more because something died.
 *
 * <p>"Once more" is: everything that a task reads or writes (shuffle blocks, cached blocks) when it
 * is not the first attempt of the first attempt of its stage, and every cached block that appears
 * anywhere after the first loss of an executor.
 */
public class RunFacts extends SparkListener {
  /** What was counted until a moment; an interval is the difference of two. */
  public record Counts(
      int executorsAdded,
      int executorsLost,
      long executorTimes,
      int tasksStarted,
      int tasksRetried,
      long bytesAgain) {
    /**
     * How long executors were there in an interval, in milliseconds, summed over them.
     *
     * @param present how many there were at its start
     */
    public long executorMillis(int present, long start, long end) {
      return present * (end - start) + (executorsAdded - executorsLost) * end - executorTimes;
    }

    /** What came after {@code earlier}. */
    public Counts since(Counts earlier) {
      return new Counts(
          executorsAdded - earlier.executorsAdded,
          executorsLost - earlier.executorsLost,
          executorTimes - earlier.executorTimes,
          tasksStarted - earlier.tasksStarted,
          tasksRetried - earlier.tasksRetried,
          bytesAgain - earlier.bytesAgain);
    }
  }

  private final Map<String, Long> blocks = new HashMap<>();
  private int executorsAdded;
  private int executorsLost;

  /** The sum of the times at which executors came, less the times at which they went. */
  private long executorTimes;

  private int tasksStarted;
  private int tasksRetried;
  private long bytesAgain;

  /** The counts until now. */
  public final synchronized Counts counts() {
    return new Counts(
        executorsAdded, executorsLost, executorTimes, tasksStarted, tasksRetried, bytesAgain);
  }

  protected void taskStarted(
      int stage, int stageAttempt, int partition, int attempt, String executor) {}

  protected void taskFailed(
      int stage, int stageAttempt, int partition, int attempt, String reason) {}

  protected void executorAdded(String executor, String host) {}

  protected void executorRemoved(String executor, String reason) {}

  @Override
  public final void onExecutorAdded(SparkListenerExecutorAdded event) {
    synchronized (this) {
      executorsAdded++;
      executorTimes += event.time();
    }
    executorAdded(event.executorId(), event.executorInfo().executorHost());
  }

  @Override
  public final void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    synchronized (this) {
      executorsLost++;
      executorTimes -= event.time();
    }
    executorRemoved(event.executorId(), event.reason());
  }

  @Override
  public final void onTaskStart(SparkListenerTaskStart event) {
    synchronized (this) {
      tasksStarted++;
      if (event.stageAttemptId() > 0 || event.taskInfo().attemptNumber() > 0) {
        tasksRetried++;
      }
    }
    taskStarted(
        event.stageId(),
        event.stageAttemptId(),
        event.taskInfo().index(),
        event.taskInfo().attemptNumber(),
        event.taskInfo().executorId());
  }

  @Override
  public final void onTaskEnd(SparkListenerTaskEnd event) {
    TaskMetrics metrics = event.taskMetrics();
    if (metrics != null && (event.stageAttemptId() > 0 || event.taskInfo().attemptNumber() > 0)) {
      synchronized (this) {
        bytesAgain +=
            metrics.shuffleReadMetrics().totalBytesRead()
                + metrics.shuffleWriteMetrics().bytesWritten()
                + metrics.inputMetrics().bytesRead();
      }
    }
    if (!event.reason().toString().equals("Success")) {
      taskFailed(
          event.stageId(),
          event.stageAttemptId(),
          event.taskInfo().index(),
          event.taskInfo().attemptNumber(),
          event.reason().toString().lines().findFirst().orElse(""));
    }
  }

  @Override
  public final void onBlockUpdated(SparkListenerBlockUpdated event) {
    BlockUpdatedInfo block = event.blockUpdatedInfo();
    long bytes = block.memSize() + block.diskSize();
    if (block.blockId().isRDD() && bytes > 0) {
      synchronized (this) {
        String place = block.blockId().name() + "@" + block.blockManagerId().executorId();
        if (blocks.put(place, bytes) == null && executorsLost > 0) {
          bytesAgain += bytes;
        }
      }
    }
  }
}
