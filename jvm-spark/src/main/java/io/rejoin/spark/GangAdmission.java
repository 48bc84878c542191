package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Locale;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Admits the gangs of one SparkContext by free slots, first come first served. All tasks of a gang
 * must run at once: two gangs that each held half of the slots would wait for each other for ever.
 */
final class GangAdmission {
  private static final Logger LOG = LoggerFactory.getLogger(GangAdmission.class);
  private static final long LOOK_MILLIS = 100;

  /** After so long executors that haven't come are asked for again; then after twice as long. */
  private static final long ASK_MILLIS = 3_000;

  private static final Map<SparkContext, GangAdmission> ALL = new WeakHashMap<>();

  private final Deque<Object> queue = new ArrayDeque<>();
  private int taken;

  /**
   * The admission of this context: one for each, so that gangs of several fits wait for each other.
   */
  static GangAdmission of(SparkContext context) {
    synchronized (ALL) {
      return ALL.computeIfAbsent(context, c -> new GangAdmission());
    }
  }

  /**
   * Waits until a slot for each worker and each spare is free, counted against the other gangs, and
   * takes them. A gang that may have fewer workers begins with those that there are slots for when
   * all have been waited for long enough; and one that may have more takes as many as it may get.
   *
   * @throws RejoinException BAD_ARGUMENT when the cluster doesn't have so many slots in time;
   *     TIMED_OUT when other gangs don't end in time; CANCELLED when the thread is interrupted
   */
  synchronized AdmittedGang admit(
      SparkContext context, WorldBounds bounds, SettingValues settings) {
    int spares = (int) settings.number(SparkSettings.SPARES);
    int tasks = bounds.workers() + spares;
    int least = bounds.min() + spares;
    long longest = Math.min(bounds.timeoutMillis(), settings.number(SparkSettings.SLOTS_TIMEOUT));
    Object ticket = new Object();
    long queued = System.nanoTime();
    long since = queued;
    long firstSince = -1;
    boolean logged = false;
    long askedAgain = 0;
    int asked = 0;
    int atFirst = -1;
    queue.add(ticket);
    try {
      while (true) {
        int slots = slots(context);
        int free = Math.min(slots - taken, tasks);
        boolean enough = slots >= least;
        if (queue.peek() == ticket) {
          firstSince = firstSince < 0 ? millisSince(queued) : firstSince;
          // In local mode no slots come.
          boolean waitedLongest =
              millisSince(queued) - firstSince >= longest || (context.isLocal() && slots < tasks);
          if (free == tasks || (free >= least && waitedLongest)) {
            return admitted(context, bounds, free, spares);
          }
        }
        if (enough) {
          since = System.nanoTime();
        } else if (context.isLocal()
            || millisSince(since) > settings.number(SparkSettings.SLOTS_TIMEOUT)) {
          throw tooFew(context, bounds, slots, settings);
        }
        if (millisSince(queued) > settings.number(SparkSettings.QUEUE_TIMEOUT)) {
          throw tooLate(tasks, slots, settings);
        }
        if (!logged) {
          logged = true;
          LOG.info(
              "waiting for {} slots: the cluster has {}, other fits hold {}, {} are queued before"
                  + " this one",
              tasks,
              slots,
              taken,
              queue.size() - 1);
        }
        if (slots < tasks && millisSince(queued) >= askedAgain) {
          askedAgain = Math.max(ASK_MILLIS, 2 * askedAgain);
          int there = InputPreparation.executors(context);
          atFirst = atFirst < 0 ? there : atFirst;
          // Those that have come were asked for, too.
          int awaited = Math.max(0, asked - Math.max(0, there - atFirst));
          asked += askForExecutors(context, tasks - slots, there, awaited);
        }
        wait(LOOK_MILLIS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new RejoinException(
          RejoinException.Code.CANCELLED, "interrupted while waiting for " + tasks + " slots", e);
    } finally {
      queue.remove(ticket);
      notifyAll();
    }
  }

  private AdmittedGang admitted(SparkContext context, WorldBounds bounds, int free, int spares) {
    int workers = free - spares;
    if (workers < bounds.workers()) {
      LOG.warn(
          "there are slots for {} of {} workers; the training begins with these, and grows when"
              + " there are more (spark.rejoin.elastic.timeout)",
          workers,
          bounds.workers());
    }
    // What comes is its, too, up to the most that it may have.
    int tasks = bounds.isElastic() ? bounds.max() : free;
    boolean isAlone = taken == 0;
    taken += tasks;
    int executors = Math.max(1, InputPreparation.executors(context));
    return new AdmittedGang(bounds, workers, tasks, isAlone ? slots(context) / executors : 0);
  }

  /** How many gangs wait. */
  synchronized int queued() {
    return queue.size();
  }

  /**
   * Dynamic allocation learns only so of what is missing; it gives up what is not used later. It is
   * asked again, ever more seldom, while they don't come: when it lowers its own target after a
   * stage, what was asked for before is gone with it. Each time for more, as a number of all would
   * be less than what it wants for other jobs, up to the most that it may have.
   *
   * @param there how many executors there are
   * @param awaited how many this wait has asked for that haven't come
   * @return how many it asks for now
   */
  private static int askForExecutors(
      SparkContext context, int missingSlots, int there, int awaited) {
    int cores = context.getConf().getInt("spark.executor.cores", 1);
    int perExecutor = Math.max(1, cores / context.getConf().getInt("spark.task.cpus", 1));
    int missing = (missingSlots + perExecutor - 1) / perExecutor;
    return SharedExecutors.of(context).more(context, missing, there, awaited);
  }

  private RejoinException tooLate(int tasks, int slots, SettingValues settings) {
    return new RejoinException(
        RejoinException.Code.TIMED_OUT,
        String.format(
            Locale.ROOT,
            "waited %d ms (spark.rejoin.queue.timeout) for %d slots; other fits of this application"
                + " hold %d of %d",
            settings.number(SparkSettings.QUEUE_TIMEOUT),
            tasks,
            taken,
            slots));
  }

  private static RejoinException tooFew(
      SparkContext context, WorldBounds bounds, int slots, SettingValues settings) {
    int workers = bounds.min();
    long spares = settings.number(SparkSettings.SPARES);
    String waited =
        String.format(
            Locale.ROOT,
            " (after %d ms, spark.rejoin.slots.timeout)",
            settings.number(SparkSettings.SLOTS_TIMEOUT));
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        String.format(
            Locale.ROOT,
            "%d workers must train at the same time%s%s, but %s has %d slots%s; set %s to at most"
                + " %d, or %s",
            workers,
            bounds.isElastic() ? " (spark.rejoin.workers.min)" : "",
            spares == 0 ? "" : " and " + spares + " spares stand by (spark.rejoin.spares)",
            context.master(),
            slots,
            context.isLocal() ? "" : waited,
            bounds.isElastic() ? "that" : bounds.workersName(),
            Math.max(1, slots - spares),
            context.isLocal()
                ? "use local[" + (workers + spares) + ",4]"
                : "give the application more executors or cores, or lower spark.task.cpus"));
  }

  private static int slots(SparkContext context) {
    return context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile());
  }

  private static long millisSince(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
  }

  /** The task slots of one admitted gang, until it is closed. */
  final class AdmittedGang implements AutoCloseable {
    private final WorldBounds bounds;
    private final int workers;
    private final int slotsOfExecutor;
    private int tasks;

    private AdmittedGang(WorldBounds bounds, int workers, int tasks, int slotsOfExecutor) {
      this.bounds = bounds;
      this.workers = workers;
      this.tasks = tasks;
      this.slotsOfExecutor = slotsOfExecutor;
    }

    /** How many of its tasks each executor can run at once; 0 where other gangs hold slots. */
    int slotsOfExecutor() {
      return slotsOfExecutor;
    }

    /** How many workers it may have while it trains. */
    WorldBounds bounds() {
      return bounds;
    }

    /** How many workers it begins with. */
    int workers() {
      return workers;
    }

    /** Lets the next gang in. */
    @Override
    public void close() {
      synchronized (GangAdmission.this) {
        taken -= tasks;
        tasks = 0;
        GangAdmission.this.notifyAll();
      }
    }
  }
}
