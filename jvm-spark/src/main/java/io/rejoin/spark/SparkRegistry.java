package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import org.apache.spark.ExceptionFailure;
import org.apache.spark.SparkContext;
import org.apache.spark.Success$;
import org.apache.spark.TaskEndReason;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.SparkListenerUnschedulableTaskSetAdded;
import org.apache.spark.scheduler.TaskInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * The registry of a gang's executors and tasks: it listens to Spark and reports to the tracker what
 * Spark knows, and has Spark do what the tracker wants.
 */
final class SparkRegistry extends SparkListener {
  /** Property by which the stages of a gang are found again among all of the application. */
  static final String PROPERTY = "rejoin.job";

  private static final Logger LOG = LoggerFactory.getLogger(SparkRegistry.class);

  private static final long CATCH_UP_MILLIS = 2_000;

  private final SparkContext context;
  private final Tracker tracker;
  private final Set<Integer> stages = ConcurrentHashMap.newKeySet();
  private final Map<String, Long> taskIds = new ConcurrentHashMap<>();
  private final Map<String, String> killsWanted = new ConcurrentHashMap<>();
  private final Map<Integer, Integer> failures = new ConcurrentHashMap<>();
  private volatile String lastFailure = "";

  SparkRegistry(SparkContext context, Tracker tracker) {
    this.context = context;
    this.tracker = tracker;
  }

  /** Waits, for a moment at most, until Spark's bus has delivered what happened before. */
  void catchUp() {
    try {
      context.listenerBus().waitUntilEmpty(CATCH_UP_MILLIS);
    } catch (TimeoutException e) {
      LOG.debug("Spark's listener bus is still busy after {} ms", CATCH_UP_MILLIS);
    }
  }

  /** The most failures of any one rank that Spark counts against its limit. */
  int mostFailuresOfOneRank() {
    return failures.values().stream().mapToInt(Integer::intValue).max().orElse(0);
  }

  /** What the last task failed with; empty if none did. */
  String lastFailure() {
    return lastFailure;
  }

  /**
   * Does what {@code KILL_WANTED} asks for: the rank is lost, but what hosts it may only be frozen.
   */
  void kill(TrainingEvent wanted) {
    String executor = wanted.text("executor");
    String reason = wanted.text("reason");
    if (context.isLocal()) {
      String attempt = key(wanted.number("stage"), wanted.number("rank"), wanted.number("task"));
      killsWanted.put(attempt, "declared lost: " + reason);
      killIfWanted(attempt);
    } else {
      LOG.warn("executor {} is to be killed and replaced: {}", executor, reason);
      if (!context.killAndReplaceExecutor(executor)) {
        LOG.warn(
            "Spark doesn't kill executor {}; its task waits for Spark to notice by itself",
            executor);
      }
    }
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties properties = event.properties();
    if (properties != null && tracker.job().toString().equals(properties.getProperty(PROPERTY))) {
      stages.add(event.stageInfo().stageId());
    }
  }

  @Override
  public void onTaskStart(SparkListenerTaskStart event) {
    if (stages.contains(event.stageId())) {
      TaskInfo task = event.taskInfo();
      String attempt = key(event.stageAttemptId(), task.index(), task.attemptNumber());
      taskIds.put(attempt, task.taskId());
      killIfWanted(attempt);
    }
  }

  /** Spark's bus may report a task's start after the tracker's wish: what comes second kills. */
  private synchronized void killIfWanted(String attempt) {
    Long task = taskIds.get(attempt);
    String reason = killsWanted.get(attempt);
    if (task != null && reason != null) {
      context.killTaskAttempt(task, true, reason);
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    TaskEndReason reason = event.reason();
    if (!stages.contains(event.stageId())
        || reason == Success$.MODULE$
        || event.taskInfo() == null) {
      return;
    }
    TaskInfo task = event.taskInfo();
    String text =
        reason instanceof TaskFailedReason
            ? ((TaskFailedReason) reason).toErrorString()
            : reason.toString();
    String line = text.split("\n", 2)[0];
    boolean counts =
        reason instanceof TaskFailedReason
            && ((TaskFailedReason) reason).countTowardsTaskFailures();
    if (counts) {
      lastFailure =
          "rank "
              + task.index()
              + ", attempt "
              + event.stageAttemptId()
              + "."
              + task.attemptNumber()
              + ": "
              + line;
      failures.merge(task.index(), 1, Integer::sum);
    }
    if (reason instanceof ExceptionFailure) {
      endIfItWillRepeat(task, ((ExceptionFailure) reason).exception());
    }
    report(
        () ->
            tracker.taskGone(
                task.index(), event.stageAttemptId(), task.attemptNumber(), line, counts));
  }

  /**
   * A task that fails before it is a member (no native library, no port) has no other way to the
   * tracker, which has to learn that trying again is of no use. What a member failed with is known
   * there already, and comes first.
   */
  private void endIfItWillRepeat(TaskInfo task, Option<Throwable> thrown) {
    if (thrown.isDefined() && thrown.get() instanceof RejoinException) {
      RejoinException failure = (RejoinException) thrown.get();
      if (failure.code() == RejoinException.Code.INCOMPATIBLE
          || failure.code() == RejoinException.Code.BAD_ARGUMENT) {
        String text = "rank " + task.index() + " on executor " + task.executorId() + ": ";
        report(() -> tracker.cancel(failure.code(), text + failure.text()));
      }
    }
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    report(() -> tracker.executorGone(event.executorId(), event.reason()));
  }

  @Override
  public void onUnschedulableTaskSetAdded(SparkListenerUnschedulableTaskSetAdded event) {
    if (stages.contains(event.stageId())) {
      LOG.warn(
          "Spark can't place a retry of job {}: no executor may take it (exclusion?)",
          tracker.job().brief());
    }
  }

  /** Spark's bus delivers late: the tracker may be closed by then. */
  private void report(Runnable fact) {
    try {
      fact.run();
    } catch (RejoinException e) {
      LOG.debug(
          "a late report of Spark's about job {} came after its end: {}",
          tracker.job().brief(),
          e.getMessage());
    }
  }

  private static String key(long stage, long rank, long task) {
    return stage + "/" + rank + "/" + task;
  }
}
