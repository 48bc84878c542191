package io.rejoin.flink;

import io.rejoin.Agent;
import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The trainer's own thread of one rank: finds its gang, joins it, and trains version after version,
 * until the input of all ranks has ended, or Flink ends the task.
 */
final class RankThread<T, M> {
  private static final Logger LOG = LoggerFactory.getLogger(RankThread.class);
  private static final long FIRST_PAUSE_MILLIS = 10;
  private static final long LONGEST_PAUSE_MILLIS = 200;
  private static final long TELL_SECONDS = 10;
  private static final long CLOSE_MILLIS = 10_000;

  private final TrainerFunction<T, M> function;
  private final RowBuffer<T> rows;
  private final SettingValues settings;
  private final Subtask subtask;
  private final Emission emission;
  private final RankMetrics metrics;
  private final Thread thread;
  private final int batchRows;
  private final long batchWait;
  private final Communicator.Limits limits;
  // Guarded by this: closed from Flink's threads while a call is under way.
  private Communicator ranks;

  RankThread(
      TrainerFunction<T, M> function, RowBuffer<T> rows, SettingValues settings, Subtask subtask) {
    this.function = function;
    this.rows = rows;
    this.settings = settings;
    this.subtask = subtask;
    this.emission = new Emission(subtask, settings);
    this.metrics = new RankMetrics(subtask.metrics());
    this.batchRows = (int) settings.number(FlinkSettings.BATCH_ROWS);
    this.batchWait = settings.number(FlinkSettings.BATCH_WAIT);
    long members = settings.number(CommonSettings.MEMBERS_TIMEOUT);
    this.limits =
        new Communicator.Limits(members, settings.number(FlinkSettings.CALL_TIMEOUT), members);
    this.thread = new Thread(this::run, "rejoin-rank-" + subtask.rank());
    this.thread.setDaemon(true);
    this.thread.setContextClassLoader(function.getClass().getClassLoader());
  }

  void start() {
    thread.start();
  }

  /** Flink wants the end: what is waited for ends at once. From any thread; doesn't wait. */
  void cancel() {
    subtask.cancel();
    rows.close();
    leave();
    thread.interrupt();
  }

  /** The same, and waits for the thread; a function that goes on for long is left behind. */
  void close() throws InterruptedException {
    cancel();
    thread.join(CLOSE_MILLIS);
    if (thread.isAlive()) {
      LOG.warn(
          "{}: TrainerFunction.onBatch goes on {} ms after the task's end", this, CLOSE_MILLIS);
    }
  }

  /**
   * Flink has ended this task with a savepoint. A rank whose input had ended before would wait for
   * this one for ever; so the coordinator hears of it.
   */
  void stopped() throws IOException, InterruptedException {
    subtask.ask(new Stopped(subtask.rank(), subtask.attempt()));
  }

  private void run() {
    Throwable failure = null;
    try {
      train();
    } catch (Throwable e) {
      failure = e;
    }
    try {
      function.close();
    } catch (Throwable e) {
      failure = failure == null ? e : failure;
    }
    leave();
    if (!isCancelled()) {
      if (failure != null) {
        rows.close();
        LOG.error("{}: training failed", this, failure);
      }
      boolean ours = failure instanceof RejoinException;
      subtask.operator().end(ours ? Repeating.told((RejoinException) failure) : failure);
    }
  }

  private void train() throws Exception {
    M first = function.open(subtask);
    int ended = 0;
    boolean done = false;
    while (!done) {
      Answer gang = find(ended);
      if (gang.kind == Answer.Kind.OVER) {
        rows.load(VersionState.of(gang.result));
        break;
      }
      if (gang.kind == Answer.Kind.STOPPED) {
        LOG.info("{}: Flink stops the job with a savepoint, at version {}", this, version());
        return;
      }
      Stay stay = new Stay();
      gang.task.run(subtask, Agent.class, Agent::open, agent -> stay.train(gang, agent, first));
      leave();
      if (stay.failure != null && (isCancelled() || !endsGang(stay.failure))) {
        // What a cancelled rank sees is its own end, and nobody else's.
        throw stay.failure;
      }
      if (stay.failure != null) {
        LOG.info("{}: gang {} is over: {}", this, gang.gang, stay.failure.getMessage());
        ended = gang.gang;
      }
      done = stay.done;
    }
    rows.finish();
    LOG.info("{}: all is trained, at version {}", this, rows.newest().version());
    emission.last(rows.newest());
  }

  private boolean isCancelled() {
    return subtask.cancelled().isPresent();
  }

  private int version() {
    return rows.newest() == null ? 0 : rows.newest().version();
  }

  /** A rank's time in one gang. */
  private final class Stay {
    private boolean done;
    private Exception failure;

    void train(Answer gang, Agent agent, M first) {
      try {
        Optional<Communicator> joined = join(gang, agent);
        if (joined.isPresent()) {
          trainIn(gang, entered(joined.get()), first);
          done = true;
        } else {
          // All is trained; the coordinator is about to hear of it.
          Thread.sleep(FIRST_PAUSE_MILLIS);
        }
      } catch (Exception e) {
        failure = e;
      }
    }
  }

  /** Whether the gang has ended, and another one may begin with what this rank has. */
  private static boolean endsGang(Exception failure) {
    RejoinException.Code code =
        failure instanceof RejoinException ? ((RejoinException) failure).code() : null;
    return code == RejoinException.Code.CANCELLED
        || code == RejoinException.Code.UNRECOVERABLE
        || code == RejoinException.Code.BAD_STATE;
  }

  /** Asks the coordinator until there is a gang. */
  private Answer find(int ended) throws IOException, InterruptedException {
    VersionState state = rows.newest();
    int version = state == null ? 0 : state.version();
    String digest = version == 0 ? "" : Communicator.digest(state.bytes());
    Offer offer =
        new Offer(subtask.rank(), subtask.attempt(), version, digest, ended, subtask.jobManager());
    long pause = FIRST_PAUSE_MILLIS;
    long told = System.nanoTime();
    while (true) {
      Answer answer = subtask.ask(offer);
      switch (answer.kind) {
        case FAIL:
          throw new RejoinException(answer.code, answer.text);
        case WAIT:
          if (System.nanoTime() - told > TimeUnit.SECONDS.toNanos(TELL_SECONDS)) {
            told = System.nanoTime();
            LOG.warn("{} waits: {}", this, answer.text);
          }
          Thread.sleep(pause);
          pause = Math.min(2 * pause, LONGEST_PAUSE_MILLIS);
          break;
        default:
          return answer;
      }
    }
  }

  private Optional<Communicator> join(Answer gang, Agent agent) {
    String terms = function.getClass().getName() + ", batches of " + batchRows + " rows";
    return agent.join(subtask.rank(), 0, subtask.attempt(), terms, limits, subtask);
  }

  /** Trains until the input of all ranks has ended. */
  private void trainIn(Answer gang, Communicator live, M first) throws Exception {
    Optional<byte[]> loaded = live.load().model();
    VersionState state =
        loaded.isPresent()
            ? VersionState.of(loaded.get())
            : VersionState.of(0, Positions.NONE, function.write(first));
    rows.load(state);
    // Rows that the model has are gone from the buffer; Flink's thread may wait for just that.
    subtask.operator().wake();
    subtask.ask(new Started(subtask.rank(), subtask.attempt(), gang.gang));
    metrics.started(live.incarnation(), state);
    LOG.info("{}: begins at version {} of gang {}", this, state.version(), gang.gang);
    M model = function.read(state.model());
    while (true) {
      List<Share> mine = rows.await(batchRows, batchWait);
      boolean ended = rows.hasEnded();
      Contribution own = new Contribution(mine, ended, Communicator.digest(state.bytes()));
      long before = System.nanoTime();
      List<Contribution> all = Contribution.all(live.allgatherV(own.bytes()));
      metrics.waited(System.nanoTime() - before);
      checkModels(all, state.version());
      if (all.stream().allMatch(one -> one.ended)) {
        live.finish(state.bytes());
        return;
      }
      List<T> batch = rows.rows(all.get(subtask.rank()).shares);
      model = function.onBatch(batch, live, model);
      state =
          VersionState.of(
              state.version() + 1, state.positions().plus(shares(all)), function.write(model));
      live.checkpoint(state.bytes());
      rows.complete(state);
      subtask.operator().wake();
      metrics.complete(state);
      emission.complete(state);
    }
  }

  private static List<List<Share>> shares(List<Contribution> all) {
    List<List<Share>> shares = new ArrayList<>();
    all.forEach(one -> shares.add(one.shares));
    return shares;
  }

  private static void checkModels(List<Contribution> all, int version) {
    String first = all.get(0).digest;
    for (int rank = 1; rank < all.size(); rank++) {
      if (!all.get(rank).digest.equals(first)) {
        throw new RejoinException(
            RejoinException.Code.MISMATCH,
            "rank "
                + rank
                + " has another model than rank 0 at version "
                + version
                + ". What TrainerFunction makes of a batch may depend on what collectives give"
                + " alone; see its documentation");
      }
    }
  }

  private Communicator entered(Communicator joined) throws InterruptedException {
    synchronized (this) {
      ranks = joined;
    }
    if (isCancelled()) {
      leave();
      throw new InterruptedException("the task has ended");
    }
    return joined;
  }

  private void leave() {
    Communicator left;
    synchronized (this) {
      left = ranks;
      ranks = null;
    }
    if (left != null) {
      left.close();
    }
  }

  @Override
  public String toString() {
    return "rank "
        + subtask.rank()
        + " of "
        + subtask.world()
        + " (attempt "
        + subtask.attempt()
        + ")";
  }
}
