package io.rejoin.spark;

import io.rejoin.EventDelivery;
import io.rejoin.RejoinException;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import io.rejoin.spark.ui.JobRecorder;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.rdd.RDD;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Runs a gang on the driver: Spark's job and the tracker side by side, until both are over. */
final class Gang {
  private static final Logger LOG = LoggerFactory.getLogger(Gang.class);
  private static final long POLL_MILLIS = 100;
  private static final long LAST_EVENTS_MILLIS = 5_000;

  /** How long a job that has its result waits for the tasks of its ranks. */
  private static final long LAST_TASKS_MILLIS = 10_000;

  /** How Spark says that a stage was tried too often. */
  private static final String STAGE_FAILED = "maximum allowable number of times";

  private static final String STAGE_ATTEMPTS =
      "after as many attempts of the stage as it makes of one whose input is lost again and again"
          + " (spark.stage.maxConsecutiveAttempts; spark.rejoin.input.replicas keeps more copies)";

  private static final String EXCLUDED =
      "because no executor may take the rank again that has failed:"
          + " spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor and ...PerNode say how often"
          + " one may, spark.excludeOnFailure.stage and .application how many failures it may see."
          + " Raise them, give the application executors on more hosts, or switch exclusion off";

  /** Spark waits for the slots of the other ranks then, which these never leave. */
  private static final String EXCLUDING =
      "spark.excludeOnFailure is on: a rank that has failed is not tried on the same executor"
          + " again, and the others have slots that other ranks hold. Give the application spare"
          + " slots on executors of their own, raise"
          + " spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor, or switch exclusion off";

  private final SparkContext context;
  private final Tracker tracker;
  private final SparkRegistry registry;
  private final RunningJobs.RunningJob running;
  private final JobRecorder tab;
  private final List<EventDelivery> listeners;
  private final Surroundings surroundings;
  private final String budget;
  private final String checkpointAdvice;
  private final Thread events;
  private final WorldBounds bounds;
  private final boolean givesRanks;
  private final SpotNotices notices;
  private volatile JavaFutureAction<?> stage;
  private volatile TrainingEvent end;
  private volatile boolean sparkIsDone;
  private volatile boolean letGo;

  /**
   * A gang.
   *
   * @param budget for the errors of a job that needs more
   * @param workers how many ranks it begins with
   * @param givesRanks whether there may be tasks without a rank
   */
  Gang(
      Tracker tracker,
      RunningJobs.RunningJob running,
      JobRecorder tab,
      List<EventDelivery> listeners,
      Surroundings surroundings,
      String budget,
      GangProgram<?> program,
      WorldBounds bounds,
      int workers,
      boolean givesRanks,
      boolean hasDurable) {
    this.bounds = bounds;
    this.givesRanks = givesRanks;
    this.context = surroundings.context();
    this.tracker = tracker;
    this.registry = new SparkRegistry(surroundings, tracker, program.besideExecutor());
    this.notices =
        surroundings.decommissions()
            ? new SpotNotices(
                surroundings, bounds, workers, tracker, registry.facts(), hasDurable, this::tell)
            : null;
    this.running = running;
    this.tab = tab;
    this.listeners = listeners;
    this.surroundings = surroundings;
    this.budget = budget;
    this.checkpointAdvice = program.checkpointAdvice();
    this.events = new Thread(this::followEvents, "rejoin-events-" + tracker.job().brief());
    this.events.setDaemon(true);
  }

  /**
   * Trains, and returns the bytes of the result.
   *
   * @throws RejoinException the job's error; CANCELLED when the user ended it
   */
  byte[] run(RDD<?> gang) {
    String before = context.getLocalProperty(SparkRegistry.PROPERTY);
    context.setLocalProperty(SparkRegistry.PROPERTY, tracker.job().toString());
    try {
      registry.listen();
      JavaFutureAction<?> job = gang.toJavaRDD().collectAsync();
      stage = job;
      events.start();
      RejoinException failure = await(job);
      if (failure != null) {
        // Where the tracker gave up first, Spark's job was cancelled, and its error doesn't say it.
        registry.lastError().map(SparkException::new).ifPresent(failure::addSuppressed);
      }
      sparkIsDone = true;
      // The tracker reports the end before any task returns, so this is only the way of the last
      // events to here.
      events.join(LAST_EVENTS_MILLIS);
      awaitListeners();
      return result(failure);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw cancelled("interrupted while training", e);
    } finally {
      sparkIsDone = true;
      context.setLocalProperty(SparkRegistry.PROPERTY, before);
      // The bus stops the listener's queue by an event that an interrupted thread doesn't put
      // there,
      // and whoever removes the next listener would wait for it for ever.
      PreparedInput.uninterrupted(() -> context.removeSparkListener(registry));
      if (notices != null) {
        PreparedInput.uninterrupted(notices::close);
      }
      PreparedInput.uninterrupted(this::awaitTheEnd);
    }
  }

  /** Of a fit that was interrupted listeners hear the end, too: it comes through the tracker. */
  private void awaitTheEnd() {
    try {
      events.join(TimeUnit.SECONDS.toMillis(1));
    } catch (InterruptedException again) {
      Thread.currentThread().interrupt();
    }
  }

  /** However many listeners are slow, the fit waits but once. */
  private void awaitListeners() throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LAST_EVENTS_MILLIS);
    List<EventDelivery.Mark> marks =
        listeners.stream().map(EventDelivery::mark).collect(Collectors.toList());
    for (EventDelivery.Mark mark : marks) {
      mark.await(TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime()));
    }
  }

  /** Waits for Spark's job; the failure it ended with, or null when it succeeded. */
  private RejoinException await(Future<?> job) {
    try {
      job.get();
      return null;
    } catch (InterruptedException e) {
      job.cancel(true);
      Thread.currentThread().interrupt();
      return cancelled("interrupted while training", e);
    } catch (ExecutionException | RuntimeException e) {
      Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
      registry.catchUp();
      if (String.valueOf(cause.getMessage()).contains("excludeOnFailure")) {
        return givenUp(EXCLUDED, cause);
      }
      if (String.valueOf(cause.getMessage()).contains(STAGE_FAILED)) {
        return givenUp(STAGE_ATTEMPTS, cause);
      }
      if (registry.mostFailuresOfOneTask() <= surroundings.deathsRetried()) {
        return cancelled("Spark ended the training job: " + cause.getMessage(), cause);
      }
      return givenUp(
          "after "
              + registry.mostFailuresOfOneTask()
              + " failures of one task ("
              + surroundings.deathsSetting()
              + ")",
          cause);
    }
  }

  /** Spark tries no more, for this reason. */
  private RejoinException givenUp(String why, Throwable cause) {
    RejoinException failure =
        new RejoinException(
            RejoinException.Code.UNRECOVERABLE,
            "Spark gave up "
                + why
                + "; the last failure was "
                + registry.lastFailure()
                + ". In this fit "
                + budget,
            cause);
    endJob(failure);
    return failure;
  }

  private RejoinException cancelled(String text, Throwable cause) {
    RejoinException failure = new RejoinException(RejoinException.Code.CANCELLED, text, cause);
    endJob(failure);
    return failure;
  }

  /**
   * So that agents learn at once that there is nothing to wait for; does nothing when the job is
   * over.
   */
  private void endJob(RejoinException failure) {
    if (end == null) {
      tracker.cancel(failure.code(), failure.text());
    }
  }

  /**
   * The tracker's report counts: its error says what came first, and a result is one even if Spark
   * failed after it.
   */
  private byte[] result(RejoinException failure) throws InterruptedException {
    TrainingEvent last = end;
    if (last != null && last.kind() == TrainingEvent.Kind.JOB_ENDED) {
      if (failure != null && !letGo) {
        LOG.warn(
            "job {} had ended well before Spark's job failed: {}",
            tracker.job().brief(),
            failure.getMessage());
      }
      return tracker.result();
    }
    if (last != null && last.kind() == TrainingEvent.Kind.JOB_FAILED) {
      RejoinException reason =
          new RejoinException(last.text("code"), advised(last.text("code"), last.text("message")));
      if (failure != null) {
        reason.addSuppressed(failure);
      }
      throw reason;
    }
    throw failure != null
        ? failure
        : new RejoinException(
            RejoinException.Code.INTERNAL,
            "all tasks have returned, but the tracker knows of no end of the job");
  }

  /** The native library knows the limits, and not the names that Spark's users have for them. */
  private String advised(String code, String message) {
    if (code.equals(RejoinException.Code.OUT_OF_SPACE.name())) {
      return message
          + " (spark.rejoin.log.memory and spark.rejoin.log.disk per executor, "
          + checkpointAdvice
          + ")";
    }
    if (code.equals(RejoinException.Code.MEMBERS_MISSING.name())) {
      return message
          + " ("
          + surroundings.membersSetting()
          + ")"
          + (bounds.isElastic()
              ? "; "
                  + bounds.min()
                  + " workers are the fewest that it goes on with"
                  + " (spark.rejoin.workers.min)"
              : "")
          + (surroundings.excludes() ? "; " + EXCLUDING : "");
    }
    if (code.equals(RejoinException.Code.UNRECOVERABLE.name()) && !message.contains(budget)) {
      return message + ". In this fit " + budget;
    }
    return message;
  }

  private void followEvents() {
    long quiet = 0;
    while (end == null && quiet < LAST_EVENTS_MILLIS) {
      TrainingEvent event;
      try {
        event = tracker.poll(POLL_MILLIS).orElse(null);
      } catch (RejoinException e) {
        LOG.debug(
            "the tracker of job {} was closed while its events were followed",
            tracker.job().brief(),
            e);
        return;
      }
      if (event != null) {
        follow(() -> take(event));
      } else if (sparkIsDone) {
        quiet += POLL_MILLIS;
      }
      if (notices != null && end == null && !sparkIsDone) {
        follow(notices::look);
      }
    }
    if (end != null && end.kind() == TrainingEvent.Kind.JOB_ENDED) {
      letGoOfTheOthers();
    }
  }

  /**
   * Without the events that follow the job would never be seen to end; and Spark throws checked
   * exceptions of which its methods say nothing.
   */
  private void follow(Runnable step) {
    try {
      step.run();
    } catch (RejoinException e) {
      LOG.debug("job {} is over: {}", tracker.job().brief(), e.getMessage());
    } catch (Exception | LinkageError e) {
      // Of Spark's that it calls some are no public interface.
      LOG.warn("job {}: what an event asks for could not be done", tracker.job().brief(), e);
    }
  }

  /**
   * All ranks have the end, and so has each task without a rank that runs. One that Spark is about
   * to start again has nothing to do any more, and one that was lost may be frozen: neither is
   * waited for. Nor is for long a rank's, whose executor may have frozen beside a Python worker
   * that has ended: Spark would find that out after spark.network.timeout, and try it again for
   * nothing.
   */
  private void letGoOfTheOthers() {
    long begin = System.nanoTime();
    while (!sparkIsDone) {
      boolean late = System.nanoTime() - begin > TimeUnit.MILLISECONDS.toNanos(LAST_TASKS_MILLIS);
      if (late) {
        LOG.warn(
            "job {} has its result, but for {} s some task hasn't returned: is its executor frozen?"
                + " It is not waited for any longer",
            tracker.job().brief(),
            TimeUnit.MILLISECONDS.toSeconds(LAST_TASKS_MILLIS));
      }
      if (late || (givesRanks && registry.tasksThatRun() == 0)) {
        letGo = true;
        stage.cancel(true);
        return;
      }
      try {
        Thread.sleep(POLL_MILLIS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }

  private void tell(TrainingEvent event) {
    running.accept(event);
    tab.accept(event);
    listeners.forEach(listener -> listener.deliver(event));
  }

  private void take(TrainingEvent event) {
    tell(event);
    registry.take(event);
    if (notices != null) {
      notices.take(event);
    }
    switch (event.kind()) {
      case JOB_FAILED:
        end = event;
        // What Spark would still retry would fail again.
        stage.cancel(true);
        break;
      case JOB_ENDED:
        end = event;
        break;
      default:
        break;
    }
  }
}
