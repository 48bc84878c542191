package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import io.rejoin.Words;
import io.rejoin.spark.ui.WorkerName;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import org.apache.spark.ExceptionFailure;
import org.apache.spark.SparkContext;
import org.apache.spark.Success$;
import org.apache.spark.TaskEndReason;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.scheduler.ExecutorKilled$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorExcluded;
import org.apache.spark.scheduler.SparkListenerExecutorExcludedForStage;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerExecutorUnexcluded;
import org.apache.spark.scheduler.SparkListenerNodeExcluded;
import org.apache.spark.scheduler.SparkListenerNodeExcludedForStage;
import org.apache.spark.scheduler.SparkListenerNodeUnexcluded;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.SparkListenerUnschedulableTaskSetAdded;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
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

  /** Spark's name of the driver among executors. */
  private static final String DRIVER = "driver";

  /** So long a cluster manager's answer is waited for, whom Spark asks to end an executor. */
  private static final long KILL_MILLIS = 1_000;

  /** With what a task may fail before it is a member, each time that it is tried. */
  private static final Set<RejoinException.Code> BEFORE_JOINING =
      EnumSet.of(
          RejoinException.Code.INCOMPATIBLE,
          RejoinException.Code.BAD_ARGUMENT,
          RejoinException.Code.INPUT_LOST,
          RejoinException.Code.MISMATCH);

  private final Surroundings surroundings;
  private final SparkContext context;
  private final Tracker tracker;
  private final boolean besideExecutors;
  private final Set<Integer> stages = ConcurrentHashMap.newKeySet();
  private final Registry registry = new Registry();
  private volatile String lastError;

  /** {@code besideExecutors}: {@link GangProgram#besideExecutor()}. */
  SparkRegistry(Surroundings surroundings, Tracker tracker, boolean besideExecutors) {
    this.surroundings = surroundings;
    this.context = surroundings.context();
    this.besideExecutors = besideExecutors;
    this.tracker = tracker;
  }

  /** Listens from now on, and takes what Spark has said before. */
  void listen() {
    context.addSparkListener(this);
    // Whoever comes or goes from here on is heard of; what Spark knows of the others may be a
    // moment behind its bus.
    catchUp();
    ScalaCollections.rest(context.statusStore().executorList(true).iterator()).stream()
        .filter(one -> !one.id().equals(DRIVER))
        .forEach(one -> log(registry.executorAdded(one.id(), host(one.hostPort()), now())));
  }

  private static String host(String hostAndPort) {
    int port = hostAndPort.lastIndexOf(':');
    return port < 0 ? hostAndPort : hostAndPort.substring(0, port);
  }

  /** What is known of executors and tasks. */
  Registry facts() {
    return registry;
  }

  /** What the task that threw last has thrown, with its traces. */
  Optional<String> lastError() {
    return Optional.ofNullable(lastError);
  }

  /** Waits, for a moment at most, until Spark's bus has delivered what happened before. */
  void catchUp() {
    try {
      context.listenerBus().waitUntilEmpty(CATCH_UP_MILLIS);
    } catch (TimeoutException e) {
      LOG.debug("Spark's listener bus is still busy after {} ms", CATCH_UP_MILLIS);
    }
  }

  /** The most failures of any one task that Spark counts against its limit. */
  int mostFailuresOfOneTask() {
    return registry.mostFailuresOfOneTask();
  }

  /** How many tasks run that are neither lost nor over. */
  int tasksThatRun() {
    return registry.tasksThatRun();
  }

  /** What the last task failed with; empty if none did. */
  String lastFailure() {
    return registry.lastFailure();
  }

  /** Takes what the tracker reports. */
  void take(TrainingEvent event) {
    switch (event.kind()) {
      case AGENT_JOINED:
        log(registry.agentJoined(executor(event), agent(event), now()));
        break;
      case AGENT_LOST:
        log(registry.agentLost(executor(event), event.text("reason"), now()));
        break;
      case AGENT_SLOW:
        log(
            registry.agentSlow(
                executor(event),
                event.sentence("nothing of it has run for {silent_millis} ms"),
                now()));
        break;
      case AGENT_RUNS:
        log(
            registry.agentRuns(
                executor(event), event.sentence("it runs again after {silent_millis} ms"), now()));
        break;
      case SPARE_STANDS_BY:
        log(
            registry.taskStandsBy(
                (int) event.number("index"),
                (int) event.number("stage"),
                (int) event.number("task"),
                executor(event),
                now()));
        break;
      case RANK_JOINED:
        log(
            registry.taskJoined(
                (int) event.number("index"),
                (int) event.number("stage"),
                (int) event.number("task"),
                (int) event.number("rank"),
                executor(event),
                now()));
        break;
      case RESIZED:
        registry.worldChanged(
            Arrays.stream(event.text("ranks").split(",", -1))
                .mapToInt(rank -> rank.isEmpty() ? -1 : Integer.parseInt(rank))
                .toArray());
        break;
      case RANK_LOST:
        int lost = (int) event.number("rank");
        log(registry.rankLost(lost, executor(event), event.text("reason"), now()));
        break;
      case KILL_WANTED:
        kill(event);
        break;
      default:
        break;
    }
  }

  /** A Python worker is there and goes with its executor, by whose name Spark knows both. */
  private static String executor(TrainingEvent event) {
    return WorkerName.executorOf(event.text("executor"));
  }

  private static String agent(TrainingEvent event) {
    return event.text("agent") + " on " + event.text("host") + ", process " + event.text("pid");
  }

  /**
   * Does what {@code KILL_WANTED} asks for: the task is lost, but what hosts it may only be frozen.
   */
  void kill(TrainingEvent wanted) {
    String executor = executor(wanted);
    int index = (int) wanted.number("index");
    int stage = (int) wanted.number("stage");
    int attempt = (int) wanted.number("task");
    String reason = wanted.text("reason");
    Registry.Decision decision =
        context.isLocal() || besideExecutors
            ? registry.killTask(index, stage, attempt, "declared lost: " + reason)
            : registry.killExecutor(executor, reason, now());
    switch (decision.action()) {
      case KILL_TASK:
        context.killTaskAttempt(decision.task(), true, decision.reason());
        break;
      case KILL_EXECUTOR:
        LOG.warn("executor {} is to be killed and replaced: {}", executor, decision.reason());
        askForItsEnd(executor);
        giveUp(executor);
        break;
      default:
        LOG.info("nothing is to be killed for task {} now: {}", index, decision.reason());
        break;
    }
  }

  /**
   * Asks the cluster manager, whose answer isn't waited for long: where that is out of reach, too,
   * Spark would wait for {@code spark.rpc.askTimeout}, and with it all that is to be done here.
   */
  private void askForItsEnd(String executor) {
    Thread asks =
        new Thread(
            () -> {
              try {
                if (!context.killAndReplaceExecutor(executor)) {
                  LOG.warn("Spark can't have executor {} killed; it goes on without it", executor);
                }
              } catch (Exception e) {
                // Checked ones of Scala's among them.
                LOG.warn("executor {} can't be killed, and is gone without by Spark", executor, e);
              }
            },
            "rejoin-kills-executor-" + executor);
    asks.setDaemon(true);
    asks.start();
    try {
      asks.join(KILL_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Has Spark go on without an executor at once, as if it were dead. One that is frozen, or cut off
   * from the network, answers nobody: its Worker takes 10 s to end it, and one that is cut off with
   * it can't be told. Until then Spark would try none of its tasks again, and would have others
   * wait for the blocks of which it holds a copy. Should it wake, Spark takes nothing from it any
   * more, and it ends itself.
   */
  private void giveUp(String executor) {
    if (context.schedulerBackend() instanceof CoarseGrainedSchedulerBackend) {
      ((CoarseGrainedSchedulerBackend) context.schedulerBackend())
          .removeExecutor(executor, ExecutorKilled$.MODULE$);
    }
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties properties = event.properties();
    // The stages behind it have the job's properties, too, and tasks of the same numbers.
    boolean isLast = event.stageInfo().shuffleDepId().isEmpty();
    if (isLast
        && properties != null
        && tracker.job().toString().equals(properties.getProperty(PROPERTY))) {
      stages.add(event.stageInfo().stageId());
    }
  }

  @Override
  public void onTaskStart(SparkListenerTaskStart event) {
    if (stages.contains(event.stageId())) {
      TaskInfo task = event.taskInfo();
      int stage = event.stageAttemptId();
      int attempt = task.attemptNumber();
      log(
          registry.taskStarted(
              task.index(), stage, attempt, task.taskId(), task.executorId(), task.launchTime()));
      // Spark's bus may report a task's start after the tracker's wish: what comes second kills.
      registry
          .killWanted(task.index(), stage, attempt)
          .ifPresent(reason -> context.killTaskAttempt(task.taskId(), true, reason));
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    TaskEndReason reason = event.reason();
    TaskInfo task = event.taskInfo();
    if (!stages.contains(event.stageId()) || task == null) {
      return;
    }
    int stage = event.stageAttemptId();
    if (reason == Success$.MODULE$) {
      log(registry.taskFinished(task.index(), stage, task.attemptNumber(), now()));
      return;
    }
    String text =
        reason instanceof TaskFailedReason
            ? ((TaskFailedReason) reason).toErrorString()
            : reason.toString();
    String line = text.split("\n", 2)[0];
    boolean counts =
        reason instanceof TaskFailedReason
            && ((TaskFailedReason) reason).countTowardsTaskFailures();
    log(registry.taskFailed(task.index(), stage, task.attemptNumber(), line, counts, now()));
    if (counts) {
      int rank = registry.rankOf(task.index(), stage, task.attemptNumber());
      int failures = registry.failuresOfTask(task.index());
      lastDeath(rank, registry.deathsOfRank(rank), task.index(), failures, surroundings)
          .ifPresent(warning -> LOG.warn("job {}: {}", tracker.job().brief(), warning));
    }
    if (reason instanceof ExceptionFailure) {
      lastError = text;
      endIfItWillRepeat(task, ((ExceptionFailure) reason).exception());
    }
    report(() -> tracker.taskGone(task.index(), stage, task.attemptNumber(), line, counts));
  }

  /**
   * What is to be said of a death after which the rank may not die again, or the task may not fail
   * again: Spark counts the failures of a task, also before it has joined and without a rank, and
   * the tracker those of a rank, whichever task had it. Whether one counts is known when Spark says
   * why the task has ended: what a cluster manager takes away doesn't.
   */
  static Optional<String> lastDeath(
      int rank, int deaths, int task, int failures, Surroundings surroundings) {
    int retried = surroundings.deathsRetried();
    if (retried == 0) {
      return Optional.empty();
    }
    String setting = " (" + surroundings.deathsSetting() + ")";
    if (rank >= 0 && deaths == retried) {
      return Optional.of(
          "rank "
              + rank
              + " has died "
              + Words.times(deaths)
              + "; the next death that counts ends the job"
              + setting);
    }
    return failures == retried
        ? Optional.of(
            "task "
                + task
                + " has failed "
                + Words.times(failures)
                + "; its next failure that counts ends the job"
                + setting)
        : Optional.empty();
  }

  /**
   * A task that fails before it is a member (no native library, no port, rows that are lost) has no
   * other way to the tracker, which has to learn that trying again is of no use. What a member
   * failed with is known there already, and comes first.
   */
  private void endIfItWillRepeat(TaskInfo task, Option<Throwable> thrown) {
    failure(thrown)
        .filter(failure -> BEFORE_JOINING.contains(failure.code()))
        .ifPresent(
            failure -> {
              String text = "task " + task.index() + " on executor " + task.executorId() + ": ";
              report(() -> tracker.cancel(failure.code(), text + failure.text()));
            });
  }

  private static Optional<RejoinException> failure(Option<Throwable> thrown) {
    if (thrown.isEmpty()) {
      return Optional.empty();
    }
    return thrown.get() instanceof RejoinException
        ? Optional.of((RejoinException) thrown.get())
        : PythonFailure.of(thrown.get());
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded event) {
    String host = event.executorInfo().executorHost();
    log(registry.executorAdded(event.executorId(), host, event.time()));
  }

  @Override
  public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
    registry.executorHeard(event.execId(), now());
  }

  @Override
  public void onExecutorExcluded(SparkListenerExecutorExcluded event) {
    String why = event.taskFailures() + " tasks have failed on it (spark.excludeOnFailure)";
    log(registry.executorExcluded(event.executorId(), why, event.time()));
  }

  @Override
  public void onExecutorExcludedForStage(SparkListenerExecutorExcludedForStage event) {
    if (stages.contains(event.stageId())) {
      String why =
          event.taskFailures() + " tasks of this job have failed on it (spark.excludeOnFailure)";
      log(registry.executorExcluded(event.executorId(), why, event.time()));
    }
  }

  @Override
  public void onExecutorUnexcluded(SparkListenerExecutorUnexcluded event) {
    log(registry.executorReadmitted(event.executorId(), event.time()));
  }

  @Override
  public void onNodeExcluded(SparkListenerNodeExcluded event) {
    String why = event.executorFailures() + " of its executors are excluded";
    log(registry.hostExcluded(event.hostId(), why));
  }

  @Override
  public void onNodeExcludedForStage(SparkListenerNodeExcludedForStage event) {
    if (stages.contains(event.stageId())) {
      String why = event.executorFailures() + " of its executors are excluded from this job";
      log(registry.hostExcluded(event.hostId(), why));
    }
  }

  @Override
  public void onNodeUnexcluded(SparkListenerNodeUnexcluded event) {
    log(registry.hostReadmitted(event.hostId()));
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    log(registry.executorGone(event.executorId(), event.reason(), event.time()));
    report(() -> tracker.executorGone(event.executorId(), event.reason()));
  }

  @Override
  public void onUnschedulableTaskSetAdded(SparkListenerUnschedulableTaskSetAdded event) {
    if (stages.contains(event.stageId())) {
      LOG.warn(
          "Spark can't place a retry of job {}: no executor may take it. There are {}",
          tracker.job().brief(),
          registry.summary());
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

  private void log(Optional<String> change) {
    change.ifPresent(line -> LOG.info("job {}: {}", tracker.job().brief(), line));
  }

  private static long now() {
    return System.currentTimeMillis();
  }
}
