package io.rejoin;

import io.rejoin.settings.SettingValues;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The native runtime of this process for one job; it hosts the ranks of this process and outlives
 * their tasks. Safe to use from several threads; closing twice does nothing.
 */
public final class Agent implements AutoCloseable {
  private final JobId job;
  private final long handle;
  private final AtomicBoolean closed = new AtomicBoolean();

  private Agent(JobId job, long handle) {
    this.job = job;
    this.handle = handle;
  }

  /**
   * Starts an agent. It looks for its tracker in the background.
   *
   * @throws RejoinException BAD_ARGUMENT for settings that can't work, IO when no port can be had,
   *     INCOMPATIBLE when the native library can't be loaded
   */
  public static Agent open(JobId job, Secret secret, Settings settings) {
    NativeLibrary.load();
    return new Agent(job, Native.agentOpen(settings.words(job), secret.bytes()));
  }

  /** Which job. */
  public JobId job() {
    return job;
  }

  /** Whether it has ended by itself (the job is over, or its lease ran out) or was closed. */
  public boolean over() {
    return closed.get() || Native.agentOver(handle);
  }

  /**
   * Asks for a rank's seat and waits until everybody needed is there and the checkpoint is fetched,
   * or the job is over.
   *
   * @param rank 0-based
   * @param stage which restart of everybody this is (Spark: stage attempt)
   * @param task which restart of this rank alone (Spark: task attempt)
   * @param terms what this process can do and assumes; must be equal for all of a job
   * @param timeoutMillis how long to wait
   * @param cancel how the framework says that the task should end; asked while this waits
   * @throws RejoinException TIMED_OUT or MEMBERS_MISSING with who was waited for;
   *     TRACKER_UNREACHABLE; FENCED when a newer try is at work; INCOMPATIBLE for other terms;
   *     CANCELLED when the framework says so; the job's error when it is over with one
   */
  public Member join(
      int rank, int stage, int task, String terms, long timeoutMillis, CancelSignal cancel) {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "the agent of job " + job.brief() + " is closed");
    }
    Watch watch = Watch.overJoin(reason -> cancelJoin(rank, stage, task, reason), cancel);
    try {
      return new Member(rank, Native.memberJoin(handle, rank, stage, task, terms, timeoutMillis));
    } finally {
      watch.close();
    }
  }

  private void cancelJoin(int rank, int stage, int task, String reason) {
    String code = RejoinException.Code.CANCELLED.name();
    Native.memberCancelJoin(handle, rank, stage, task, code, reason);
  }

  /** Stops the agent and frees what it holds. */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      Native.agentClose(handle);
    }
  }

  /** What an agent is told at its start. */
  public static final class Settings implements Serializable {
    private static final long serialVersionUID = 1L;

    private final LinkedHashMap<String, String> values = new LinkedHashMap<>();

    /** For a tracker at host:port. */
    public Settings(String tracker) {
      values.put("tracker", tracker);
    }

    private Settings(Settings from) {
      values.putAll(from.values);
    }

    /** A copy, to be completed by the process that opens the agent. */
    public Settings copy() {
      return new Settings(this);
    }

    /** The framework's name of the executor, the address to listen on, and the host's name. */
    public Settings place(String executor, String address, String hostname) {
      return set("executor", executor).set("host", address).set("hostname", hostname);
    }

    /**
     * What a user has set ({@link io.rejoin.settings.CommonSettings}); defaults count otherwise.
     */
    public Settings with(SettingValues set) {
      values.putAll(set.forAgent());
      return this;
    }

    /** Directory for logs that don't fit into memory. */
    public Settings spillDirectory(String directory) {
      return set("spill.dir", directory);
    }

    /**
     * Durable checkpoints of a {@link CollectiveAgent}'s ranks: every so many versions (from 1 on)
     * one is written to a directory that is there and that all processes of the job see. Should all
     * of them die at once, the newest whole one is gone on from. An agent of XGBoost's has none.
     */
    public Settings durable(String directory, int every) {
      return set("durable.dir", directory).set("durable.every", Integer.toString(every));
    }

    /**
     * How many other processes hold each rank's own model ({@link Communicator#checkpoint(byte[],
     * byte[])}), on other hosts where there are any (2): so many less one may die at the same
     * moment as the rank. At least 1, and the same at all ranks of a job; where there are fewer
     * others, each of them holds one. For a {@link CollectiveAgent}; an agent of XGBoost's has no
     * own models.
     */
    public Settings ownCopies(int copies) {
      return set("own.copies", Integer.toString(copies));
    }

    private Settings set(String key, String value) {
      values.put(key, value);
      return this;
    }

    String[] words(JobId job) {
      Map<String, String> all = new LinkedHashMap<>();
      all.put("job", job.toString());
      all.putAll(values);
      return Pairs.of(all);
    }
  }
}
