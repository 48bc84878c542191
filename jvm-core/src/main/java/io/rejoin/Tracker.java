package io.rejoin;

import io.rejoin.settings.SettingValues;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The coordinator of one job on the driver: it owns the native tracker, feeds it what only the
 * framework knows, and reports what happens. Safe to use from several threads; closing twice does
 * nothing.
 */
public final class Tracker implements AutoCloseable {
  private final JobId job;
  private final Secret secret;
  private final int life;
  private final long handle;
  private final AtomicBoolean closed = new AtomicBoolean();

  private Tracker(JobId job, Secret secret, int life, long handle) {
    this.job = job;
    this.secret = secret;
    this.life = life;
    this.handle = handle;
  }

  /**
   * Starts a tracker for a job of {@code world} ranks.
   *
   * @throws RejoinException BAD_ARGUMENT for settings that can't work ({@link Settings#state} among
   *     them, which has the job's id and secret), IO when no port can be had, INCOMPATIBLE when the
   *     native library can't be loaded
   */
  public static Tracker open(JobId job, Secret secret, Settings settings) {
    if (settings.values.containsKey("state")) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "a tracker with state was given a job and a secret; expected none, since the state has"
              + " them: Tracker.open(settings), then job() and secret()");
    }
    return open(settings, job, secret);
  }

  /**
   * Starts a tracker for a new job with a random id and secret ({@link #job}, {@link #secret}), or,
   * with {@link Settings#state}, the next life of the tracker whose driver has died.
   *
   * @throws RejoinException BAD_ARGUMENT for settings that can't work, among them a state that is
   *     of a job of another size, or that others can read; IO when no port can be had, or the state
   *     can't be read or written; INCOMPATIBLE when the native library can't be loaded
   */
  public static Tracker open(Settings settings) {
    return open(settings, JobId.random(), Secret.random());
  }

  private static Tracker open(Settings settings, JobId job, Secret secret) {
    NativeLibrary.load();
    String[] words = Pairs.of(job, settings.values);
    long handle = Native.trackerOpen(words, secret.bytes(), settings.folder);
    String[] state = Native.trackerState(handle);
    return state == null
        ? new Tracker(job, secret, 1, handle)
        : new Tracker(JobId.of(state[0]), Secret.of(state[1]), Integer.parseInt(state[2]), handle);
  }

  /** The id of the job that this tracker coordinates. */
  public JobId job() {
    return job;
  }

  /** What the processes of the job prove to know. */
  public Secret secret() {
    return secret;
  }

  /** Which life of the job's tracker it is: 1, or more with {@link Settings#state}. */
  public int life() {
    return life;
  }

  /** Where agents reach it, as host:port. */
  public String address() {
    return Native.trackerAddress(open());
  }

  /** The framework says that an executor is gone. */
  public void executorGone(String executor, String reason) {
    report("executor.gone", "executor", executor, "reason", reason);
  }

  /**
   * The framework says that a try of a task has failed or was killed.
   *
   * @param index the task's number: that of its rank, in a job without spares
   * @param counts whether that counts against the framework's number of retries
   */
  public void taskGone(int index, int stage, int task, String reason, boolean counts) {
    report(
        "task.gone",
        "index",
        Integer.toString(index),
        "stage",
        Integer.toString(stage),
        "task",
        Integer.toString(task),
        "reason",
        reason,
        "counts",
        Boolean.toString(counts));
  }

  /**
   * In a job with {@link Settings#elastic}: the framework is about to end a task, for which it has
   * no other place. The ranks finish the version that they are in, and go on without its rank; the
   * event {@code TASK_RELEASED} says when nothing is lost by the end of this try. That may never
   * come (the world would be too small, say): end the task after a time of your own. Then what the
   * others were in is done again, and no replacement is waited for. Should there be a slot for it
   * again, a later try takes part as any other.
   *
   * @param index the task's number
   * @param stage the stage attempt of its newest try, as it joins with it
   * @param task the number of that try, as it joins with it
   */
  public void taskLeaves(int index, int stage, int task) {
    report(
        "task.leaves",
        "index",
        Integer.toString(index),
        "stage",
        Integer.toString(stage),
        "task",
        Integer.toString(task));
  }

  /**
   * The framework is about to take hosts away, and a checkpoint that is newer than this version is
   * of use. Ranks that can take one before its turn do so at the end of the round that they are in.
   * Replaces an older wish.
   *
   * @param after the newest version that is known
   * @param durable whether the next checkpoint is to be in the durable folder, if the job has one,
   *     even if it isn't its turn
   */
  public void checkpointWanted(int after, boolean durable) {
    report(
        "checkpoint.wanted",
        "after",
        Integer.toString(after),
        "durable",
        Boolean.toString(durable));
  }

  /** Ends the job with an error, which reaches every task. */
  public void cancel(RejoinException.Code code, String message) {
    report("cancel", "code", code.name(), "message", message);
  }

  /**
   * The next event, waiting at most so long; empty when there is none in time.
   *
   * @throws RejoinException BAD_STATE when the job has another tracker now ({@link
   *     Settings#state}): a later life has taken it over, and this one is to be closed, which tells
   *     the agents nothing
   */
  public Optional<TrainingEvent> poll(long timeoutMillis) {
    String[] words = Native.trackerPoll(open(), timeoutMillis);
    return words == null
        ? Optional.empty()
        : Optional.of(new TrainingEvent(words, System.nanoTime()));
  }

  /**
   * Rank 0's result. Only after the event {@code JOB_ENDED} or {@code JOB_FAILED}.
   *
   * @throws RejoinException the job's error, if it failed
   */
  public byte[] result() {
    return Native.trackerResult(open());
  }

  /** Stops the tracker; agents learn that the job is over. */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      Native.trackerClose(handle);
    }
  }

  private void report(String... fact) {
    Native.trackerNotify(open(), fact);
  }

  private long open() {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "the tracker of job " + job.brief() + " is closed");
    }
    return handle;
  }

  /** What a tracker starts with. Every setting has a default but the world and the host. */
  public static final class Settings {
    private final Map<String, String> values = new LinkedHashMap<>();
    private Object folder;

    /**
     * For so many ranks, listening on this address of the driver, which agents must be able to
     * reach.
     */
    public Settings(int world, String host) {
      values.put("world", Integer.toString(world));
      values.put("host", host);
    }

    /**
     * What a user has set ({@link io.rejoin.settings.CommonSettings}); defaults count otherwise.
     */
    public Settings with(SettingValues set) {
      values.putAll(set.forTracker());
      return this;
    }

    /**
     * At which death of one rank the framework gives up (Spark: spark.task.maxFailures), at least
     * 1, and the name of the setting that raises it.
     */
    public Settings deaths(int limit, String setting) {
      return set("deaths.limit", Integer.toString(limit)).set("deaths.setting", setting);
    }

    /**
     * The framework says of each death whether it counts ({@link Tracker#taskGone}), and a death
     * ends the job then and not before. Without this each death counts when it is seen.
     */
    public Settings frameworkCountsDeaths() {
      return set("deaths.framework.counts", "true");
    }

    /**
     * So many tasks more than ranks take part: every task asks for a rank ({@link
     * ProcessAgent#asRank}), those beyond the ranks stand by, and one of them is given a rank when
     * that is lost.
     */
    public Settings spares(int spares) {
      return set("spares", Integer.toString(spares));
    }

    /**
     * The world may change: when a rank has been missing for {@code timeoutMillis} it shrinks to
     * the ranks that are there, and where tasks stand by it grows, at most once in {@code
     * intervalMillis}. Every task asks for a rank ({@link ProcessAgent#asRank}), and asks again
     * when a call of its training ends with RESIZED. Tasks have the numbers from 0 to {@code max}
     * (exclusive); those of the first ranks are theirs.
     *
     * @param min the fewest ranks, from 1 to those that the job begins with
     * @param max the most ranks, at least as many as it begins with
     */
    public Settings elastic(int min, int max, long timeoutMillis, long intervalMillis) {
      return set("elastic.min", Integer.toString(min))
          .set("elastic.max", Integer.toString(max))
          .set("elastic.timeout.millis", Long.toString(timeoutMillis))
          .set("elastic.interval.millis", Long.toString(intervalMillis));
    }

    /**
     * With {@link #elastic}: the world may change so many times. After that it doesn't grow, and if
     * it had to shrink, the job ends with UNRECOVERABLE. Any number of times, unless it is set.
     */
    public Settings resetLimit(int most) {
      return set("elastic.resizes.limit", Integer.toString(most));
    }

    /**
     * With {@link #elastic}: own models ({@link Communicator#checkpoint(byte[], byte[])}) of ranks
     * that are gone may be lost, should no copy of one be left. Otherwise the job ends with
     * UNRECOVERABLE then.
     */
    public Settings ownModelsMayBeLost() {
      return set("elastic.own.may.be.lost", "true");
    }

    /**
     * The port that it listens at, as the same for each life. Without it, or with 0, any that is
     * free: of a later life with {@link #state} the one before's, if that can be had.
     */
    public Settings port(int port) {
      return set("ports", Integer.toString(port));
    }

    /**
     * The driver may die: a tracker that is opened with the same folder takes the job over, and the
     * ranks, which train on for the lease (60 s), never notice. The folder has a file {@code join}
     * with the job's id, its secret, the tracker's address and which life of it that is. It is this
     * user's alone, is refused if others can read it, and is removed by {@link Tracker#close}; the
     * folder is made if it isn't there, and has to be each job's own. A file that a job has left
     * behind which nobody wants to go on with has to be removed.
     *
     * <p>At another address ranks find the tracker by that file: those that {@code rejoin run
     * --join FOLDER/join} starts, and others with {@link AgentSettings#joinFile}. All other
     * settings have to be the same in each life. Of two lives the later one has the job; {@link
     * Tracker#poll} of the other one throws BAD_STATE. How often ranks have died is counted anew.
     */
    public Settings state(Path folder) {
      return set("state", folder.toAbsolutePath().toString());
    }

    /** What the job is called in its event log, if {@link #with} has given it one. */
    public Settings name(String name) {
      return values.containsKey("events") ? set("name", name) : this;
    }

    /** Faults for tests and the demo, see {@link Faults}. */
    public Settings faults(Faults faults) {
      return set("faults", faults.toString());
    }

    /**
     * The job begins with a model that its program hands over ({@link Agent#handOver}), and not
     * from nothing: {@link Communicator#load} gives this version and that model to every rank.
     *
     * <p>If no process has handed it over when all ranks have joined, the job ends with
     * UNRECOVERABLE; if one has handed over anything else, or finds durable checkpoints of an
     * earlier job with this job's id, with MISMATCH. Both say what was expected.
     *
     * @param version how many checkpoints an earlier job had taken, at least 1
     * @param digest the model's ({@link Communicator#digest})
     */
    public Settings startFrom(int version, String digest) {
      return set("start.version", Integer.toString(version)).set("start.digest", digest);
    }

    /**
     * The job begins with the newest whole checkpoint of that name which an earlier job has
     * written, and from nothing if there is none. Its agents must be given the same folder and
     * name. Where each rank has a model of its own, a job that isn't elastic needs as many ranks as
     * the earlier one. {@link Tracker#open} throws IO when the folder can't be read, and
     * BAD_ARGUMENT for another number of ranks.
     *
     * @param durable with a name ({@link DurableCheckpoints#named})
     * @throws RejoinException BAD_ARGUMENT for one without a name
     */
    public Settings resume(DurableCheckpoints durable) {
      if (durable.name() == null) {
        throw new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "durable checkpoints without a name can't be resumed: nothing finds them again");
      }
      folder = durable.folder();
      return set("durable.name", durable.name());
    }

    private Settings set(String key, String value) {
      values.put(key, value);
      return this;
    }
  }
}
