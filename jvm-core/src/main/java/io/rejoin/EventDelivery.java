package io.rejoin;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings events to a listener on a thread of its own, in order. However slow the listener is, the
 * job's end and the tracker's wishes are followed without it; one that lets 10,000 events wait
 * loses those that come then, so that it doesn't take the driver's memory.
 */
public final class EventDelivery {
  private static final Logger LOG = LoggerFactory.getLogger(EventDelivery.class);

  static final int MOST_WAITING = 10_000;

  private final BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
  private final Consumer<TrainingEvent> listener;
  private final Thread thread;
  private boolean open = true;
  private boolean loses;

  /** Delivers on a daemon thread of this name, by which the log calls the listener, too. */
  public EventDelivery(String name, Consumer<TrainingEvent> listener) {
    this.listener = listener;
    this.thread = new Thread(this::run, name);
    this.thread.setDaemon(true);
    this.thread.start();
  }

  /**
   * Queues an event for the listener, and returns at once; the job's end whatever waits. For one
   * thread.
   */
  public void deliver(TrainingEvent event) {
    boolean isEnd =
        event.kind() == TrainingEvent.Kind.JOB_ENDED
            || event.kind() == TrainingEvent.Kind.JOB_FAILED;
    if (isEnd || queue.size() < MOST_WAITING) {
      queue.add(() -> listener.accept(event));
    } else if (!loses) {
      loses = true;
      LOG.warn("{} is slow: {} events wait for it, and it loses others", name(), MOST_WAITING);
    }
  }

  /** Behind all events so far. */
  public Mark mark() {
    CountDownLatch reached = new CountDownLatch(1);
    queue.add(reached::countDown);
    return limit -> {
      boolean hasCome = reached.await(limit, TimeUnit.MILLISECONDS);
      if (!hasCome) {
        LOG.warn("{} is slow: {} events are still to be delivered", name(), queue.size() - 1);
      }
      return hasCome;
    };
  }

  /** A place in what a listener is brought. */
  public interface Mark {
    /**
     * Waits until the listener has had all that comes before, at most so long; says whether it has.
     */
    boolean await(long limitMillis) throws InterruptedException;
  }

  /** No more events come; those that are queued are still delivered. */
  public void close() {
    queue.add(() -> open = false);
  }

  private String name() {
    return "the event listener " + thread.getName();
  }

  private void run() {
    try {
      while (open) {
        Runnable next = queue.take();
        try {
          next.run();
        } catch (Throwable thrown) {
          // Errors, too: a class that the user's code needs may be missing.
          LOG.warn("{} threw", name(), thrown);
        }
      }
    } catch (InterruptedException e) {
      LOG.debug("only the JVM's end interrupts this thread", e);
    }
  }
}
