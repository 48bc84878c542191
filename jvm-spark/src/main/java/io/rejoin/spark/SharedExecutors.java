package io.rejoin.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the gangs of one SparkContext ask the cluster manager for, and what they take of what is
 * there: each of them sees the same executors go, and the same slots free.
 */
final class SharedExecutors {
  private static final Logger LOG = LoggerFactory.getLogger(SharedExecutors.class);

  /** Spark's own default of {@code spark.executor.instances}. */
  private static final int INSTANCES = 2;

  private static final long IDLE_SECONDS = 10;

  private static final Map<SparkContext, SharedExecutors> ALL = new WeakHashMap<>();

  /** Which executors are to go that each gang has tasks on. */
  private final Map<Object, Set<String>> leaving = new HashMap<>();

  /** Gangs of which a rank is on its way to a free slot. */
  private final Map<Object, Integer> claims = new HashMap<>();

  /**
   * Asks the cluster manager, which may be out of reach for minutes, in the order of what is asked.
   */
  private final ExecutorService asks = asks();

  private int replaced;

  /** Those of this context. */
  static SharedExecutors of(SparkContext context) {
    synchronized (ALL) {
      return ALL.computeIfAbsent(context, any -> new SharedExecutors());
    }
  }

  private static ExecutorService asks() {
    ThreadPoolExecutor one =
        new ThreadPoolExecutor(
            1,
            1,
            IDLE_SECONDS,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            work -> {
              Thread thread = new Thread(work, "rejoin-asks-for-executors");
              thread.setDaemon(true);
              return thread;
            });
    one.allowCoreThreadTimeOut(true);
    return one;
  }

  /**
   * These executors are to go that this gang has tasks on; none when it sees none any more. Where
   * the application says how many executors it wants, replacements are asked for before those are
   * gone that they replace. A standalone master starts others by itself, as many as there are cores
   * for, and a number would be a limit to it.
   */
  synchronized void replace(SparkContext context, Object gang, Set<String> executors) {
    int before = replaced;
    int now = leaving(gang, executors);
    replaced = now;
    String master = context.master();
    if (before == now || !(master.equals("yarn") || master.startsWith("k8s"))) {
      return;
    }
    if (isDynamic(context)) {
      if (now > before) {
        ask(now - before, () -> context.requestExecutors(now - before));
      }
      return;
    }
    int all = context.getConf().getInt("spark.executor.instances", INSTANCES) + now;
    LOG.info("{} executors are asked for, since {} of them are to go", all, now);
    ask(all, () -> context.requestTotalExecutors(all, 0, ScalaCollections.noMap()));
  }

  /** How many executors are to go, as all gangs see it, when this one sees these. */
  synchronized int leaving(Object gang, Set<String> executors) {
    if (executors.isEmpty()) {
      leaving.remove(gang);
    } else {
      leaving.put(gang, executors);
    }
    return (int) leaving.values().stream().flatMap(Set::stream).distinct().count();
  }

  /**
   * Asks for so many more, where Spark allocates executors by what is to be done; never for more
   * than it may have. What Spark adds to its target by such a call it doesn't compare with that.
   *
   * @param there how many executors there are
   * @param awaited how many more were asked for before by who waits, and haven't come
   * @return how many it has asked for
   */
  int more(SparkContext context, int executors, int there, int awaited) {
    int most = mostExecutors(context.getConf());
    if (!isDynamic(context) || there >= most) {
      return 0;
    }
    int more = allowed(context.getConf(), executors, there, awaited);
    if (more == executors) {
      LOG.info("asking for {} more executors", more);
      ask(more, () -> context.requestExecutors(more));
    } else {
      // Those that were asked for may be forgotten since: Spark has lowered its target then.
      LOG.info("asking for all executors that there may be, {}", most);
      ask(most, () -> context.requestTotalExecutors(most, 0, ScalaCollections.noMap()));
    }
    return more;
  }

  /** How many of so many more executors may be added. */
  static int allowed(SparkConf conf, int executors, int there, int awaited) {
    return (int) Math.max(0, Math.min(executors, (long) mostExecutors(conf) - there - awaited));
  }

  private static int mostExecutors(SparkConf conf) {
    return conf.getInt("spark.dynamicAllocation.maxExecutors", Integer.MAX_VALUE);
  }

  private static boolean isDynamic(SparkContext context) {
    return context.getConf().getBoolean("spark.dynamicAllocation.enabled", false);
  }

  private void ask(int executors, Callable<Boolean> request) {
    asks.execute(
        () -> {
          try {
            request.call();
          } catch (Exception | LinkageError e) {
            // The cluster manager may be out of reach for now, and Spark throws what it doesn't
            // declare. A replacement comes when the executor has gone.
            LOG.warn("{} executors could not be asked for", executors, e);
          }
        });
  }

  /** So many ranks of this gang are on their way to free slots. */
  synchronized void claim(Object gang, int slots) {
    put(claims, gang, slots);
  }

  /** How many free slots ranks of other gangs are on their way to. */
  synchronized int claimedByOthers(Object gang) {
    int all = claims.values().stream().mapToInt(Integer::intValue).sum();
    return all - claims.getOrDefault(gang, 0);
  }

  private static void put(Map<Object, Integer> numbers, Object gang, int number) {
    if (number == 0) {
      numbers.remove(gang);
    } else {
      numbers.put(gang, number);
    }
  }
}
