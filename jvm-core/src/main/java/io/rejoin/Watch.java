package io.rejoin;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One daemon thread per JVM that watches members in progress: a worker that is stuck in native code
 * notices no interrupt, so when its framework wants it to end, it is freed from here. It also
 * closes agents that are over, and by it agents know that Java's threads run: a collection of
 * garbage stops them, and not the agents. It ends when there is nothing left to watch.
 */
public final class Watch implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Watch.class);
  private static final long PERIOD_MILLIS = 50;
  private static final int PERIODS_PER_TENDING = 20;

  private static final List<Watch> WATCHED = new ArrayList<>();
  private static boolean running;
  private static boolean agentsToTend;

  /** After so many in a row what is asked isn't there any more. */
  private static final int MOST_FAILURES = 20;

  private final Consumer<String> free;
  private final boolean again;
  private final CancelSignal signal;
  private int failures;

  private Watch(Consumer<String> free, boolean again, CancelSignal signal) {
    this.free = free;
    this.again = again;
    this.signal = signal;
  }

  /**
   * Watches a rank's work until this is closed, or {@code free} has taken the reason: one that it
   * throws at is given to it again.
   */
  public static Watch over(Consumer<String> free, CancelSignal signal) {
    return add(new Watch(free, false, signal));
  }

  /**
   * Watches a join until this is closed. Its end is asked for again and again: the first call may
   * come before the join has begun to wait.
   */
  public static Watch overJoin(Consumer<String> free, CancelSignal signal) {
    return add(new Watch(free, true, signal));
  }

  private static Watch add(Watch watch) {
    synchronized (WATCHED) {
      WATCHED.add(watch);
      start();
    }
    return watch;
  }

  /** Stops watching. */
  @Override
  public void close() {
    synchronized (WATCHED) {
      WATCHED.remove(this);
    }
  }

  /** Starts the thread that closes idle agents, unless it runs already. */
  static void tend() {
    synchronized (WATCHED) {
      agentsToTend = true;
      start();
    }
  }

  private static void start() {
    if (!running) {
      Thread thread = new Thread(Watch::run, "rejoin-watch");
      thread.setDaemon(true);
      // Throws where there can be no further thread.
      thread.start();
      running = true;
    }
  }

  private static void run() {
    for (int period = 1; ; period++) {
      try {
        if (!lookAtAll(period)) {
          return;
        }
      } catch (RuntimeException | Error e) {
        // All watches need this thread, also when memory was missing for a moment.
        warn(e);
      }
      try {
        Thread.sleep(PERIOD_MILLIS);
      } catch (InterruptedException e) {
        // An interrupt has no meaning here: this thread ends when there is nothing to watch.
        Thread.interrupted();
      }
    }
  }

  private static void warn(Throwable cause) {
    try {
      LOG.warn("tasks and agents can't be looked after now", cause);
    } catch (RuntimeException | Error again) {
      // Memory may still be missing; the next look is due in a moment.
      Thread.yield();
    }
  }

  /** False when there is nothing to look after any more. */
  private static boolean lookAtAll(int period) {
    List<Watch> watched;
    synchronized (WATCHED) {
      if (WATCHED.isEmpty() && !agentsToTend) {
        running = false;
        Native.rest();
        return false;
      }
      watched = new ArrayList<>(WATCHED);
      Native.beat();
    }
    watched.forEach(Watch::look);
    if (period % PERIODS_PER_TENDING == 0) {
      try {
        tendAgents();
      } catch (RuntimeException | Error e) {
        LOG.warn("agents that are over can't be closed now", e);
        tend();
      }
    }
    return true;
  }

  /**
   * The flag is taken down before looking, so that an agent that comes meanwhile raises it again.
   */
  private static void tendAgents() {
    synchronized (WATCHED) {
      agentsToTend = false;
    }
    if (Agents.closeThoseThatAreOver() > 0) {
      tend();
    }
  }

  private void look() {
    try {
      Optional<String> reason = signal.cancelled();
      if (reason.isPresent()) {
        free.accept(reason.get());
        if (!again) {
          close();
        }
      }
      failures = 0;
    } catch (RuntimeException | Error e) {
      // A signal that can't be asked any more, or a member that was closed at this moment, has
      // nothing left to free; the others are watched on. What was missing for a moment comes back.
      if (++failures == MOST_FAILURES) {
        LOG.debug("a task isn't watched any longer", e);
        close();
      }
    }
  }
}
