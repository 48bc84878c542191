package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExecutorDecommissionState;
import org.apache.spark.status.api.v1.ExecutorSummary;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Executors that Spark decommissions: they are told of their end in time, as spot instances are.
 * Spark has no listener event for it, so it is asked; and what {@link Moves} decides is done. For
 * one thread, but for the close.
 */
final class SpotNotices {
  private static final Logger LOG = LoggerFactory.getLogger(SpotNotices.class);
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final SparkContext context;
  private final SharedExecutors executors;
  private final Tracker tracker;
  private final Registry registry;
  private final Consumer<TrainingEvent> events;
  private final Moves moves;
  private final boolean hasDurable;
  private final String job;
  private long looked = System.nanoTime() - LOOK_NANOS;
  private int leaving;
  private boolean allLeave;
  private boolean isOff;

  /**
   * Of a gang.
   *
   * @param bounds whether the number of ranks may change
   * @param workers how many ranks it begins with
   * @param hasDurable whether its checkpoints are written to a durable folder
   * @param events what listeners are to get
   */
  SpotNotices(
      Surroundings surroundings,
      WorldBounds bounds,
      int workers,
      Tracker tracker,
      Registry registry,
      boolean hasDurable,
      Consumer<TrainingEvent> events) {
    this.context = surroundings.context();
    this.executors = SharedExecutors.of(context);
    this.tracker = tracker;
    this.registry = registry;
    this.events = events;
    this.hasDurable = hasDurable;
    // A place that comes in the first half of the time for which one is waited for after a death
    // still finds the rank, and most notices are longer.
    this.moves =
        bounds.isElastic()
            ? new Moves(workers, hasDurable, bounds.timeoutMillis() / 2)
            : new Moves(workers, hasDurable);
    this.job = tracker.job().brief();
  }

  /** Takes what the tracker reports; what was waited for is followed up at once. */
  void take(TrainingEvent event) {
    switch (event.kind()) {
      case VERSION_ENTERED:
        moves.entered((int) event.number("rank"), (int) event.number("version"));
        break;
      case DURABLE_WRITTEN:
        moves.durable((int) event.number("version"));
        break;
      case DURABLE_FAILED:
        moves.durableFailed();
        break;
      case ROLLED_BACK:
        moves.rolledBack((int) event.number("version"));
        break;
      case RESIZED:
        moves.resized((int) event.number("world"));
        break;
      case TASK_RELEASED:
        guarded(
            () ->
                release(
                    (int) event.number("index"),
                    (int) event.number("stage"),
                    (int) event.number("task")));
        break;
      default:
        return;
    }
    if (leaving > 0) {
      guarded(this::decide);
    }
  }

  /** Asks Spark, unless that was a moment ago, and does what is to be done. */
  void look() {
    long nanos = System.nanoTime();
    if (nanos - looked >= LOOK_NANOS) {
      looked = nanos;
      guarded(
          () -> {
            registry.executorsWithoutNotice().forEach(this::ask);
            decide();
          });
    }
  }

  /** The gang is over: what was asked for beyond what the application wants isn't any more. */
  synchronized void close() {
    isOff = true;
    executors.replace(context, this, Set.of());
    executors.claim(this, 0);
  }

  private synchronized void guarded(Runnable work) {
    if (isOff) {
      return;
    }
    try {
      work.run();
    } catch (Exception | LinkageError e) {
      // What is asked here is no public interface of Spark's, and has checked exceptions of
      // Scala's.
      isOff = true;
      LOG.warn(
          "job {}: executors that are told of their end in time are not left before it from now on,"
              + " since Spark could not be asked",
          job,
          e);
    }
  }

  private void decide() {
    Moves.Situation now = registry.situation(0);
    leaving = now.leaves();
    executors.replace(context, this, registry.executorsToReplace());
    executors.claim(this, moves.underWay(now));
    if (leaving == 0) {
      allLeave = false;
    } else {
      sayWhatIsLost(now.allLeave());
      steps().forEach(this::carryOut);
    }
  }

  /** A slot that a rank is moved to is free for no other gang, which may decide at this moment. */
  private List<Moves.Step> steps() {
    synchronized (executors) {
      List<Moves.Step> steps =
          moves.decide(registry.situation(freeSlots()), System.currentTimeMillis());
      if (steps.stream().anyMatch(step -> step.action() == Moves.Action.MOVE)) {
        executors.claim(this, 1);
      }
      return steps;
    }
  }

  private void ask(String executor) {
    Option<ExecutorDecommissionState> state =
        context.taskScheduler().getExecutorDecommissionState(executor);
    if (state.isEmpty()) {
      return;
    }
    long since = state.get().startTime();
    String host = state.get().workerHost().isEmpty() ? "" : " with its host";
    String why = "Spark decommissions it" + host;
    long now = System.currentTimeMillis();
    Optional<String> line = registry.executorLeaves(executor, why, now);
    line.ifPresent(
        text -> {
          LOG.warn("job {}: {}, known to Spark for {} ms", job, text, Math.max(0, now - since));
          Map<String, String> fields = new LinkedHashMap<>();
          fields.put("executor", executor);
          fields.put("known_millis", String.valueOf(Math.max(0, now - since)));
          fields.put("reason", why);
          tell("ExecutorLeaves", fields);
        });
  }

  private void carryOut(Moves.Step step) {
    switch (step.action()) {
      case WANT_CHECKPOINT:
      case WANT_DURABLE:
        boolean isDurable = step.action() == Moves.Action.WANT_DURABLE;
        LOG.info("job {}: {}{}", job, step.reason(), isDurable ? ", and has to be durable" : "");
        want(step.after(), isDurable);
        break;
      case LET_GO:
        LOG.info("job {}: {} is let go: {}", job, step.task(), step.reason());
        kill(step.task(), "the spare");
        break;
      case MOVE:
        LOG.warn("job {}: {} is moved: {}", job, step.task(), step.reason());
        Map<String, String> fields = new LinkedHashMap<>();
        fields.put("rank", String.valueOf(step.task().rank()));
        fields.put("executor", step.task().executor());
        fields.put("reason", step.reason());
        tell("RankMoved", fields);
        kill(step.task(), "rank " + step.task().rank());
        break;
      case LEAVE:
        LOG.warn("job {}: {} leaves: {}", job, step.task(), step.reason());
        leave(step.task());
        break;
      default:
        LOG.info("job {}: {} is not moved now: {}", job, step.task(), step.reason());
        break;
    }
  }

  private void kill(Moves.Task task, String who) {
    String why = who + " is moved off executor " + task.executor() + ", which is to go";
    kill(task.number(), who, why);
  }

  /** Doesn't count as a failure with Spark, which tries it again on an executor that stays. */
  private void kill(long number, String who, String why) {
    if (!context.killTaskAttempt(number, true, why)) {
      LOG.info("job {}: task {} of {} has ended before it was killed", job, number, who);
    }
  }

  private void leave(Moves.Task task) {
    try {
      tracker.taskLeaves(task.index(), task.stage(), task.attempt());
    } catch (RejoinException e) {
      LOG.debug("job {} is over: {}", job, e.getMessage());
    }
  }

  /** The others go on without it. Where a slot comes it is tried again, and stands by there. */
  private void release(int index, int stage, int attempt) {
    long number = registry.numberOf(index, stage, attempt);
    if (moves.hasLeft(number)) {
      kill(number, "task " + index, "it has no rank any more, and its executor is to go");
    }
  }

  private void want(int after, boolean durable) {
    try {
      tracker.checkpointWanted(after, durable);
    } catch (RejoinException e) {
      LOG.debug("job {} is over: {}", job, e.getMessage());
    }
  }

  private void tell(String name, Map<String, String> fields) {
    events.accept(TrainingEvent.recorded(name, fields, System.nanoTime()));
  }

  /** Tasks of other jobs have slots, too. What Spark's store says may be a moment old. */
  private int freeSlots() {
    int free = 0;
    for (String executor : registry.executorsThatStay()) {
      try {
        ExecutorSummary summary = context.statusStore().executorSummary(executor);
        if (!summary.isActive()) {
          continue;
        }
        int taken = Math.max(summary.activeTasks(), registry.tasksOn(executor));
        free += Math.max(0, summary.maxTasks() - taken);
      } catch (NoSuchElementException unknown) {
        LOG.debug("executor {} isn't in Spark's store yet", executor);
      }
    }
    return Math.max(0, free - executors.claimedByOthers(this));
  }

  private void sayWhatIsLost(boolean all) {
    if (all && !allLeave && !hasDurable) {
      LOG.warn(
          "job {}: all executors that train are to go, and spark.rejoin.durable is not set: should"
              + " they end before others have their ranks, all that was trained is lost",
          job);
    }
    allLeave = all;
  }
}
