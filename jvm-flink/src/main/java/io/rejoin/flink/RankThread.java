package io.rejoin.flink;

import io.rejoin.Agent;
import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The trainer's own thread of one rank: trains version after version, until the input of all ranks
 * has ended.
 */
final class RankThread<T, M> extends GangThread {
  private static final Logger LOG = LoggerFactory.getLogger(RankThread.class);

  private final TrainerFunction<T, M> function;
  private final RowBuffer<T> rows;
  private final SettingValues settings;
  private final Subtask<? extends TrainOperator<?, T, M>> subtask;
  private final Emission emission;
  private final RankMetrics metrics;
  private final int batchRows;
  private final long batchWait;
  private final Communicator.Limits limits;
  private volatile boolean isOpen;
  // Guarded by this: closed from Flink's threads while a call is under way.
  private Communicator ranks;

  RankThread(
      TrainerFunction<T, M> function,
      RowBuffer<T> rows,
      SettingValues settings,
      Subtask<? extends TrainOperator<?, T, M>> subtask) {
    super(subtask, function.getClass().getClassLoader());
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
        new Communicator.Limits(members, settings.number(CommonSettings.CALL_TIMEOUT), members);
  }

  @Override
  void release() {
    rows.close();
    leave();
  }

  @Override
  void work() throws Exception {
    LOG.info("{}: its task is open", this);
    try {
      try {
        train();
      } finally {
        function.close();
      }
    } catch (Throwable e) {
      rows.close();
      throw e;
    } finally {
      leave();
    }
  }

  /** The function has had the time of a missing rank to open: else its task fails. */
  void refuseUnopened() {
    if (!isOpen && !isCancelled()) {
      subtask
          .operator()
          .fail(
              new RejoinException(
                  RejoinException.Code.TIMED_OUT,
                  this
                      + ": "
                      + function.getClass().getName()
                      + ".open has not returned for "
                      + settings.number(CommonSettings.MEMBERS_TIMEOUT)
                      + " ms, and all ranks wait for it. See what thread rejoin-rank-"
                      + subtask.rank()
                      + " of this TaskManager waits for, or raise "
                      + settings.name(CommonSettings.MEMBERS_TIMEOUT)));
    }
  }

  private void train() throws Exception {
    M first = function.open(subtask);
    isOpen = true;
    End end =
        stay(
            Agent.class,
            Agent::open,
            (gang, agent) -> {
              Optional<Communicator> joined = join(gang, agent);
              try {
                return joined.isPresent() && trainIn(gang, entered(joined.get()), first);
              } finally {
                leave();
              }
            });
    if (end.isStop) {
      return;
    }
    if (end.result != null) {
      rows.load(VersionState.of(end.result));
    }
    rows.finish();
    LOG.info("{}: all is trained, at version {}", this, rows.newest().version());
    emission.last(rows.newest());
  }

  @Override
  Offer offer(int ended) {
    VersionState state = rows.newest();
    int version = state == null ? 0 : state.version();
    String digest = version == 0 ? "" : Communicator.digest(state.bytes());
    return new Offer(
            subtask.rank(), subtask.attempt(), version, digest, ended, subtask.jobManager())
        .read(restoredRead());
  }

  /** For those who go on with splits that this rank keeps rows of ({@link KeptRows}). */
  private byte[] restoredRead() {
    byte[] read = rows.restoredRead().map(Positions::bytes).orElse(new byte[0]);
    if (read.length <= Offer.MOST_READ_BYTES) {
      return read;
    }
    LOG.warn("{}: {}", this, Offer.tooMuch(read.length));
    return new byte[0];
  }

  private Optional<Communicator> join(Answer gang, Agent agent) {
    VersionState own = rows.newest();
    if (gang.version > 0 && own != null && own.version() == gang.version) {
      agent.handOver(gang.version, own.bytes());
    }
    String terms = function.getClass().getName() + ", batches of " + batchRows + " rows";
    return agent.join(subtask.rank(), 0, subtask.attempt(), terms, limits, subtask);
  }

  /** Trains until the input of all ranks has ended; true then. */
  private boolean trainIn(Answer gang, Communicator live, M first) throws Exception {
    Optional<byte[]> loaded = live.load().model();
    VersionState state =
        loaded.isPresent()
            ? VersionState.of(loaded.get())
            : VersionState.of(0, Positions.NONE, function.write(first));
    rows.othersRead(gang.read.stream().map(Positions::of).collect(Collectors.toList()));
    rows.load(state);
    subtask.ask(new Started(subtask.rank(), subtask.attempt(), gang.gang));
    metrics.started(live.incarnation(), state);
    LOG.info("{}: begins at version {} of gang {}", this, state.version(), gang.gang);
    if (state.version() > 0) {
      // Who completed it may have died before it went downstream.
      emission.complete(state);
    }
    M model = function.read(state.model());
    // The others have waited for a rank that comes back, so its first batch waits for no rows.
    long wait = live.incarnation() > 0 ? Math.min(batchWait, 1) : batchWait;
    while (true) {
      List<Share> mine = rows.await(batchRows, wait);
      wait = batchWait;
      boolean ended = rows.hasEnded();
      Contribution own = new Contribution(mine, ended, Communicator.digest(state.bytes()));
      long before = System.nanoTime();
      List<Contribution> all = Contribution.exchange(own, live.world(), live::allgather);
      metrics.waited(System.nanoTime() - before);
      checkModels(all, state.version());
      if (all.stream().allMatch(one -> one.ended)) {
        subtask.operator().ending();
        live.finish(state.bytes());
        return true;
      }
      List<T> batch = rows.rows(all.get(subtask.rank()).shares);
      model = function.onBatch(batch, live, model);
      boolean areAll = all.stream().noneMatch(one -> one.isCut);
      Positions positions = state.positions().plus(shares(all), areAll);
      state = VersionState.of(state.version() + 1, positions, function.write(model));
      live.checkpoint(state.bytes());
      rows.complete(state);
      if (metrics.complete(state)) {
        LOG.info("{}: its first version, {}, is complete", this, state.version());
      }
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
}
