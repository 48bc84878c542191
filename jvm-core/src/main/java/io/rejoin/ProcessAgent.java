package io.rejoin;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * The native runtime of this process for one job; it hosts the ranks of this process and outlives
 * their tasks. What its ranks can do is its subclass's. Safe to use from several threads; closing
 * twice does nothing.
 */
public abstract class ProcessAgent implements AutoCloseable {
  /** Starts the native side; returns its handle. */
  protected interface Opener {
    /**
     * With settings as pairs of key and value, the job's secret, and the folder of durable
     * checkpoints as the native library calls it, or null.
     */
    long open(String[] settings, byte[] secret, Object folder);
  }

  private static final long LOOK_MILLIS = 50;

  private final JobId job;
  private final long handle;
  private final AtomicBoolean closed = new AtomicBoolean();

  /**
   * Starts an agent. It looks for its tracker in the background.
   *
   * @param durable null for none
   * @throws RejoinException BAD_ARGUMENT for settings that can't work, IO when no port can be had,
   *     INCOMPATIBLE when the native library can't be loaded
   */
  protected ProcessAgent(
      JobId job, Secret secret, AgentSettings settings, DurableCheckpoints durable, Opener opener) {
    NativeLibrary.load();
    this.job = job;
    AgentSettings all = durable == null ? settings : durable.over(settings);
    Object folder = durable == null ? null : durable.folder();
    this.handle = opener.open(all.words(job), secret.bytes(), folder);
  }

  /** The job whose ranks it hosts; a process may take part in several jobs, with an agent each. */
  public final JobId job() {
    return job;
  }

  /** Whether it has ended by itself (the job is over, or its lease ran out) or was closed. */
  public final boolean over() {
    return closed.get() || over(handle);
  }

  /** Whether it was closed by its owner. */
  protected final boolean isClosed() {
    return closed.get();
  }

  /**
   * In a job with spares ({@link Tracker.Settings#spares}), or whose world may change ({@link
   * Tracker.Settings#elastic}): a task asks for a rank, stands by until it is given one, and trains
   * as that; when the job reaches its end before, it does nothing. Where the training ends with
   * RESIZED the task asks again, and trains as what it is in the world of then. Otherwise the call
   * returns or throws as the training does.
   *
   * @param own the task by its number, which is that of its rank or, for the tasks beyond, none;
   *     and its try
   * @param cancel how the framework says that the task should end; asked while it stands by
   * @param training what it does as the rank that it was given, by the try that it has to join as
   * @throws RejoinException CANCELLED; FENCED when a newer try of the task is there;
   *     TRACKER_UNREACHABLE; the job's error when it is over with one
   */
  public final void asRank(RankTask own, CancelSignal cancel, Consumer<RankTask> training) {
    try {
      Optional<RankTask> given = givenRank(own, cancel);
      while (given.isPresent()) {
        if (trainsToTheEnd(training, given.get())) {
          return;
        }
        given = givenRank(own, cancel);
      }
    } finally {
      standDown(own);
    }
  }

  /** Whether there is nothing left to do; otherwise the world has changed. */
  private static boolean trainsToTheEnd(Consumer<RankTask> training, RankTask rank) {
    try {
      training.accept(rank);
      return true;
    } catch (RejoinException e) {
      if (e.code() != RejoinException.Code.RESIZED) {
        throw e;
      }
      return false;
    }
  }

  /**
   * The rank that a task of such a job is given, and the try of it that it has to join as; empty
   * when the job reaches its end before. For a task whose rank is another process beside it: that
   * asks the tracker by the same number and try, and has the rank from then on. Whoever calls this
   * calls {@link #standDown(RankTask)} when the task ends.
   *
   * @throws RejoinException as {@link #asRank}, but for what the training throws
   */
  public final Optional<RankTask> givenRank(RankTask own, CancelSignal cancel) {
    String[] given = null;
    while (given == null) {
      own.throwIfCancelled(cancel);
      given = standBy(open(), own.rank(), own.stage(), own.task(), LOOK_MILLIS);
    }
    Map<String, String> values = Pairs.map(given);
    if (values.containsKey("over")) {
      return Optional.empty();
    }
    int rank = Integer.parseInt(values.get("rank"));
    int stage = Integer.parseInt(values.get("stage"));
    int task = Integer.parseInt(values.get("task"));
    return Optional.of(new RankTask(rank, stage, task, own.joinMillis(), own.finishMillis()));
  }

  /** A task that asked for a rank has ended, however it did. Nothing happens when it has none. */
  public final void standDown(RankTask own) {
    if (!isClosed()) {
      standDown(handle, own.rank(), own.stage(), own.task());
    }
  }

  /** The native side's answer, waiting at most so long; null while the task stands by. */
  protected abstract String[] standBy(
      long handle, int index, int stage, int task, long timeoutMillis);

  /** The task has ended, however it did. */
  protected abstract void standDown(long handle, int index, int stage, int task);

  /** Stops it, and frees what it holds. */
  @Override
  public final void close() {
    if (closed.compareAndSet(false, true)) {
      close(handle);
    }
  }

  /** Whether the native side has ended by itself. */
  protected abstract boolean over(long handle);

  /** Lets the native side go; called once. */
  protected abstract void close(long handle);

  /**
   * The native side's handle.
   *
   * @throws RejoinException BAD_STATE after it was closed
   */
  protected final long open() {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "the agent of job " + job.brief() + " is closed");
    }
    return handle;
  }
}
