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
   * takes them.
   *
   * @throws RejoinException BAD_ARGUMENT when the cluster doesn't have so many slots in time;
   *     TIMED_OUT when other gangs don't end in time; CANCELLED when the thread is interrupted
   */
  synchronized AdmittedGang admit(SparkContext context, int workers, SettingValues settings) {
    int tasks = workers + (int) settings.number(SparkSettings.SPARES);
    Object ticket = new Object();
    long queued = System.nanoTime();
    long since = queued;
    boolean logged = false;
    queue.add(ticket);
    try {
      while (true) {
        int slots = slots(context);
        boolean enough = slots >= tasks;
        if (enough && queue.peek() == ticket && taken + tasks <= slots) {
          taken += tasks;
          return new AdmittedGang(tasks);
        }
        if (enough) {
          since = System.nanoTime();
        } else if (context.isLocal()
            || millisSince(since) > settings.number(SparkSettings.SLOTS_TIMEOUT)) {
          throw tooFew(context, workers, slots, settings);
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
          askForExecutors(context, tasks - slots);
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

  /** How many gangs wait. */
  synchronized int queued() {
    return queue.size();
  }

  /** Dynamic allocation learns only so of what is missing; it gives up what is not used later. */
  private static void askForExecutors(SparkContext context, int missingSlots) {
    if (missingSlots <= 0
        || !context.getConf().getBoolean("spark.dynamicAllocation.enabled", false)) {
      return;
    }
    int cores = context.getConf().getInt("spark.executor.cores", 1);
    int perExecutor = Math.max(1, cores / context.getConf().getInt("spark.task.cpus", 1));
    int executors = (missingSlots + perExecutor - 1) / perExecutor;
    LOG.info("asking for {} more executors", executors);
    context.requestExecutors(executors);
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
      SparkContext context, int workers, int slots, SettingValues settings) {
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
            "%d workers must train at the same time%s, but %s has %d slots%s; set numWorkers to at"
                + " most %d, or %s",
            workers,
            spares == 0 ? "" : " and " + spares + " spares stand by (spark.rejoin.spares)",
            context.master(),
            slots,
            context.isLocal() ? "" : waited,
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
    private int workers;

    private AdmittedGang(int workers) {
      this.workers = workers;
    }

    /** Lets the next gang in. */
    @Override
    public void close() {
      synchronized (GangAdmission.this) {
        taken -= workers;
        workers = 0;
        GangAdmission.this.notifyAll();
      }
    }
  }
}
