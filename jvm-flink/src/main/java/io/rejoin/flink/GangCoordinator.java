package io.rejoin.flink;

import io.rejoin.EventReporter;
import io.rejoin.Faults;
import io.rejoin.GangTask;
import io.rejoin.JobId;
import io.rejoin.JobTotals;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongPredicate;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationRequestHandler;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The JobManager's side of one trainer: owns the tracker of the present gang, and answers ranks
 * that ask for it. Flink calls it on the JobManager's main thread, so nothing here waits.
 */
final class GangCoordinator implements OperatorCoordinator, CoordinationRequestHandler {
  private static final Logger LOG = LoggerFactory.getLogger(GangCoordinator.class);
  private static final long POLL_MILLIS = 200;
  private static final long REPORT_MILLIS = 10_000;

  private final String name;
  private final Context context;
  private final SettingValues settings;
  private final boolean keepsResult;
  private final LongPredicate isDrain;
  private final Gathering gathering;
  private final JobTotals totals = new JobTotals();
  private Tracker tracker;
  private Thread closing;
  private Answer join;
  private byte[] result;
  // Flink has begun to stop the job and to drain it, and no attempt has failed since.
  private boolean isDraining;
  // It had begun before the result was there, which may be that of inputs which were cut short.
  private boolean isResultOfDrain;
  private long waitingSince;
  private long reported;

  /**
   * A coordinator.
   *
   * @param keepsResult whether the result is in Flink's checkpoints from the end on, because ranks
   *     that begin again from one haven't got it in theirs
   * @param isDrain whether the checkpoint of this id, which has just begun, is a savepoint with
   *     which Flink ends the inputs ({@code --drain})
   */
  GangCoordinator(
      String name,
      Context context,
      SettingValues settings,
      boolean keepsResult,
      LongPredicate isDrain) {
    this.name = name;
    this.context = context;
    this.settings = settings;
    this.keepsResult = keepsResult;
    this.isDrain = isDrain;
    this.gathering = new Gathering(context.currentParallelism());
    register(context.metricGroup().addGroup("rejoin"));
  }

  private void register(MetricGroup group) {
    group.gauge("recoveries", totals::recoveries);
    group.gauge("lostMillis", () -> totals.lostMillis(System.nanoTime()));
    group.gauge("logBytes", () -> totals.held("log_bytes"));
    group.gauge("spilledBytes", () -> totals.held("spilled_bytes"));
    group.gauge("checkpointBytes", () -> totals.held("checkpoint_bytes"));
  }

  @Override
  public void start() {
    LOG.info("{}: a trainer of {} ranks begins", name, context.currentParallelism());
  }

  @Override
  public CompletableFuture<CoordinationResponse> handleCoordinationRequest(
      CoordinationRequest request) {
    if (request instanceof Offer) {
      return CompletableFuture.completedFuture(answer((Offer) request).wrapped());
    }
    if (request instanceof Full) {
      return CompletableFuture.completedFuture(full().wrapped());
    }
    if (request instanceof Stopping) {
      stopping((Stopping) request);
    } else if (request instanceof Stopped) {
      stopped((Stopped) request);
    } else {
      started((Started) request);
    }
    return CompletableFuture.completedFuture(Answer.await("").wrapped());
  }

  private synchronized void started(Started rank) {
    gathering.started(rank);
  }

  private synchronized Answer full() {
    return gathering.isStopping() ? Answer.stopping() : Answer.await("");
  }

  private synchronized void stopping(Stopping rank) {
    LOG.info("{}: rank {} has come to a savepoint that stops the job", name, rank.rank);
    gathering.stopping(rank);
  }

  private synchronized void stopped(Stopped rank) {
    boolean wasRunning = gathering.isRunning();
    gathering.stopped(rank);
    if (wasRunning && !gathering.isRunning() && result == null) {
      endGang("Flink has stopped rank " + rank.rank + " with a savepoint");
    }
  }

  private synchronized Answer answer(Offer offer) {
    if (result != null) {
      return Answer.over(result, offer.resultFrom);
    }
    try {
      boolean wasRunning = gathering.isRunning();
      Gathering.Decision decision = gathering.asked(offer);
      if (wasRunning && !gathering.isRunning()) {
        endGang("it has ended for rank " + offer.rank);
      }
      switch (decision) {
        case JOIN:
          return join;
        case BEGIN:
          if (hasPorts() && closing != null && closing.isAlive()) {
            return Answer.await("the port of the former gang's tracker is being given back");
          }
          return begin(offer.jobManager);
        case STOPPED:
          return Answer.stopped();
        case OUTDATED:
          return Answer.fail(
              RejoinException.Code.FENCED,
              "attempt " + offer.attempt + " of rank " + offer.rank + " was given up by Flink");
        default:
          return await();
      }
    } catch (RejoinException e) {
      return Answer.fail(e.code(), e.text());
    }
  }

  private Answer await() {
    List<Integer> absent = gathering.absent();
    if (absent.isEmpty()) {
      nobodyIsAbsent();
      return Answer.await(
          "ranks " + gathering.missing() + " run, and still read their input or load their state");
    }
    if (waitingSince == 0) {
      waitingSince = System.nanoTime();
    }
    long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - waitingSince);
    String whom =
        "ranks "
            + absent
            + " of "
            + context.currentParallelism()
            + " have not come to the JobManager for "
            + waited
            + " ms; each needs a slot of a TaskManager (free slots: Flink's web page, or its log)";
    long limit = settings.number(CommonSettings.MEMBERS_TIMEOUT);
    if (waited >= reported + Math.min(REPORT_MILLIS, limit / 2)) {
      reported = waited;
      LOG.warn("{}: {}", name, whom);
    }
    if (waited > limit) {
      return Answer.fail(
          RejoinException.Code.MEMBERS_MISSING,
          whom
              + ". Start more TaskManagers, or raise "
              + settings.name(CommonSettings.MEMBERS_TIMEOUT));
    }
    return Answer.await(whom);
  }

  private void nobodyIsAbsent() {
    waitingSince = 0;
    reported = 0;
  }

  /** All ranks have said what they have. */
  private Answer begin(String jobManager) {
    Offer newest = gathering.newest();
    JobId job = JobId.random();
    Secret secret = Secret.random();
    Tracker.Settings how =
        new Tracker.Settings(context.currentParallelism(), host(jobManager))
            .with(settings)
            .name(name + ", gang " + (gathering.gang() + 1))
            .deaths(Integer.MAX_VALUE, "Flink's restart strategy")
            .faults(Faults.parse(settings.text(FlinkSettings.FAULTS)));
    if (newest.version > 0) {
      how.startFrom(newest.version, newest.digest);
    }
    tracker = PassingThread.call("rejoin-open", () -> openTracker(job, secret, how));
    String address = PassingThread.call("rejoin-address", tracker::address);
    GangRows rows = gathering.rows();
    List<byte[]> read = read();
    int number = gathering.begun();
    nobodyIsAbsent();
    GangTask task = new GangTask(job, secret, address, settings);
    join = Answer.join(number, task, newest.version, rows, read);
    LOG.info(
        "{}: gang {} begins with version {}, as job {} of Rejoin, tracker at {}",
        name,
        number,
        newest.version,
        job.brief(),
        address);
    String events = settings.text(CommonSettings.EVENTS);
    if (!events.isEmpty()) {
      LOG.info("{}: the events of gang {} go to {}/{}.jsonl", name, number, events, job);
    }
    Tracker followed = tracker;
    Thread following = new Thread(() -> follow(followed), "rejoin-events-" + job.brief());
    following.setDaemon(true);
    following.start();
    return join;
  }

  /** How far restored ranks had read; nothing where that is too much. */
  private List<byte[]> read() {
    List<byte[]> read = gathering.read();
    long bytes = read.stream().mapToLong(one -> one.length).sum();
    if (bytes <= Offer.MOST_READ_BYTES) {
      return read;
    }
    LOG.warn("{}: {}", name, Offer.tooMuch(bytes));
    return List.of();
  }

  /** Whether ports are chosen: there may be just the one that a former gang's tracker has. */
  private boolean hasPorts() {
    return !settings.text(CommonSettings.TRACKER_PORTS).equals("0");
  }

  private Tracker openTracker(JobId job, Secret secret, Tracker.Settings how) {
    try {
      return Tracker.open(job, secret, how);
    } catch (RejoinException e) {
      throw settings.portsAreTaken(CommonSettings.TRACKER_PORTS, e);
    }
  }

  /** Of what is set; any other machine's would fail again and again. */
  private String own(String set) {
    try {
      InetAddress address = InetAddress.getByName(set);
      if (NetworkInterface.getByInetAddress(address) != null) {
        return address.getHostAddress();
      }
    } catch (IOException unknown) {
      LOG.debug("{} has no address", set, unknown);
    }
    throw new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        settings.name(FlinkSettings.TRACKER_HOST)
            + " is "
            + set
            + "; expected a name or an address of the JobManager's own machine, which TaskManagers"
            + " reach");
  }

  /** The JobManager's address that TaskManagers reach. */
  private String host(String jobManager) {
    String set = settings.text(FlinkSettings.TRACKER_HOST);
    if (!set.isEmpty()) {
      return own(set);
    }
    try {
      if (!jobManager.isEmpty()) {
        InetAddress known = InetAddress.getByName(jobManager);
        if (NetworkInterface.getByInetAddress(known) != null) {
          return known.getHostAddress();
        }
      }
      InetAddress own = InetAddress.getLocalHost();
      if (own.isLoopbackAddress()) {
        LOG.warn(
            "{}: where TaskManagers reach the JobManager isn't known here, and its host's name is"
                + " {}, which no other host reaches. Set {}",
            name,
            own,
            settings.name(FlinkSettings.TRACKER_HOST));
      }
      return own.getHostAddress();
    } catch (IOException e) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the JobManager can't tell its own address ("
              + e.getMessage()
              + "); set "
              + settings.name(FlinkSettings.TRACKER_HOST),
          e);
    }
  }

  private void follow(Tracker followed) {
    EventReporter reporter = new EventReporter(followed.job(), settings);
    try {
      while (true) {
        TrainingEvent event = followed.poll(POLL_MILLIS).orElse(null);
        if (event == null) {
          continue;
        }
        reporter.accept(event);
        count(followed, event);
        if (event.kind() == TrainingEvent.Kind.JOB_ENDED) {
          ended(followed);
          return;
        }
        if (event.kind() == TrainingEvent.Kind.JOB_FAILED) {
          return;
        }
      }
    } catch (RejoinException closed) {
      LOG.debug("the tracker of job {} was closed", followed.job().brief(), closed);
    }
  }

  /** What is still heard of a gang that is over counts no more. */
  private synchronized void count(Tracker followed, TrainingEvent event) {
    if (followed == tracker) {
      totals.accept(event);
    }
  }

  private synchronized void ended(Tracker followed) {
    if (followed == tracker) {
      result = followed.result();
      isResultOfDrain = isDraining;
    }
  }

  /** Its ranks learn that it is over, and ask again. */
  private void endGang(String why) {
    if (tracker != null) {
      LOG.info("{}: gang {} is over: {}", name, gathering.gang(), why);
      Tracker old = tracker;
      tracker = null;
      if (result == null) {
        totals.jobIsOver(System.nanoTime());
      }
      // It waits for the tracker's thread.
      closing = new Thread(old::close, "rejoin-close-" + old.job().brief());
      closing.start();
    }
  }

  @Override
  public void handleEventFromOperator(int subtask, int attempt, OperatorEvent event) {
    throw new IllegalStateException("subtask " + subtask + " sent an event; none is known");
  }

  @Override
  public synchronized void executionAttemptFailed(int subtask, int attempt, Throwable reason) {
    String why =
        reason == null
            ? "Flink restarts it with a task that has failed, or cancels it"
            : "Flink says: " + reason.toString().split("\n")[0];
    LOG.info("{}: attempt {} of rank {} is over: {}", name, attempt, subtask, why);
    boolean nobodyIsLeft = gathering.failed(subtask, attempt);
    if (isDraining || isResultOfDrain) {
      drainHasFailed();
      return;
    }
    if (result != null || tracker == null) {
      return;
    }
    Tracker present = tracker;
    PassingThread.call(
        "rejoin-gone",
        () -> {
          present.taskGone(subtask, 0, attempt, why, true);
          return null;
        });
    if (nobodyIsLeft) {
      endGang("nobody is left who holds its state");
    }
  }

  /**
   * Flink fails all attempts that had come to a savepoint with which it can't drain the job, each
   * by itself, and the next ones begin from its last checkpoint: what was taken for the end of the
   * inputs was none. (Where it only stops the job, the inputs haven't ended, and ranks that live go
   * on.)
   */
  private void drainHasFailed() {
    isDraining = false;
    isResultOfDrain = false;
    boolean wasOver = result != null;
    result = null;
    gathering.drainHasFailed();
    endGang(
        "Flink couldn't drain the job with a savepoint, so all ranks begin again"
            + (wasOver ? ", and what was trained at the end of the drained inputs isn't all" : ""));
  }

  @Override
  public synchronized void executionAttemptReady(int subtask, int attempt, SubtaskGateway gateway) {
    gathering.ready(subtask, attempt);
  }

  @Override
  public void subtaskReset(int subtask, long checkpoint) {
    LOG.info("{}: rank {} goes on from Flink's checkpoint {}", name, subtask, checkpoint);
  }

  @Override
  public synchronized void resetToCheckpoint(long checkpoint, byte[] data) {
    gathering.reset();
    result = data == null || data.length == 0 ? null : data;
    isDraining = false;
    isResultOfDrain = false;
    nobodyIsAbsent();
    endGang("Flink resets all subtasks to checkpoint " + checkpoint);
  }

  @Override
  public synchronized void checkpointCoordinator(long checkpoint, CompletableFuture<byte[]> done) {
    isDraining = isDrain.test(checkpoint);
    boolean isAll = result != null && !isResultOfDrain;
    done.complete(keepsResult && isAll ? result : new byte[0]);
  }

  @Override
  public void notifyCheckpointComplete(long checkpoint) {
    // What Rejoin needs is in the model.
  }

  @Override
  public synchronized void close() {
    endGang("the Flink job is over");
  }
}
