package io.rejoin.spark;

import static java.util.stream.Collectors.toList;

import io.rejoin.RejoinException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says that one application writes to a durable folder. Its holder has a file there, whose name
 * ends with a number, and again and again one of the next number in its place. Who finds a file
 * that stays takes the folder over by removing it, and a holder whose file is gone has lost it. So
 * no clocks are compared, and no file is written twice, which local disks and object stores don't
 * do in one step.
 */
final class WriterLock implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(WriterLock.class);
  private static final String PREFIX = "writer-";

  /** How often there is a new file, and how long one has to stay to count as left behind. */
  static final long RENEW_MILLIS = 2_000;

  static final long SILENT_MILLIS = 5 * RENEW_MILLIS;

  private final DurableFolder of;
  private final byte[] owner;
  private final String mine = PREFIX + UUID.randomUUID() + "-";
  private final Runnable whenLost;
  private final ScheduledExecutorService keeper =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            Thread thread = new Thread(work, "rejoin-writer-lock");
            thread.setDaemon(true);
            return thread;
          });
  private HadoopFolder files;
  private long number;
  private boolean isOver;
  private volatile String lostTo;
  private volatile long removed;

  private WriterLock(DurableFolder of, String owner, Runnable whenLost) {
    this.of = of;
    this.files = of.make();
    this.owner = owner.getBytes(StandardCharsets.UTF_8);
    this.whenLost = whenLost;
  }

  /**
   * Takes the lock of a folder, which is made if it isn't there; waits where another's is there,
   * until it is sure that its holder is gone.
   *
   * @param owner for the error of others that want it
   * @param whenLost called once, on another thread, when another application has taken it over
   * @throws RejoinException BAD_ARGUMENT with the owner when another application is at work there;
   *     CANCELLED when the thread is interrupted
   */
  static WriterLock take(DurableFolder of, String owner, Runnable whenLost) {
    WriterLock lock = new WriterLock(of, owner, whenLost);
    of.attempt(
        "locked",
        () -> {
          lock.take();
          return null;
        });
    lock.keeper.scheduleWithFixedDelay(
        lock::renew, RENEW_MILLIS, RENEW_MILLIS, TimeUnit.MILLISECONDS);
    return lock;
  }

  private synchronized void take() throws IOException {
    List<String> left = others();
    if (!left.isEmpty()) {
      LOG.info(
          "durable folder {} was written to by {}: waiting {} s to see whether it still is",
          of,
          ownerOf(left),
          SILENT_MILLIS / 1000);
      List<String> now = left;
      for (long waited = 0; waited < SILENT_MILLIS && !now.isEmpty(); waited += RENEW_MILLIS) {
        pause();
        now = others();
        refuseIf(now, left);
      }
      for (String name : left) {
        files.remove(name);
      }
      // It was removed if its holder has come to the end.
      files = of.make();
    }
    write(number);
    // One that has come, or come back, at the same time has the lock, or neither of the two has.
    List<String> now = others();
    if (!now.isEmpty()) {
      files.remove(mine + number);
      refuseIf(now, List.of());
    }
  }

  /** Refuses where there are others than these. */
  private void refuseIf(List<String> now, List<String> known) throws IOException {
    if (!known.containsAll(now)) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the durable folder "
              + of
              + " is being written to by "
              + ownerOf(now)
              + ", which trains the same; expected one application at a time. Wait for its end, or"
              + " give this one a spark.rejoin.durable.name of its own");
    }
  }

  private static void pause() {
    try {
      Thread.sleep(RENEW_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new RejoinException(
          RejoinException.Code.CANCELLED, "interrupted while a durable folder was locked");
    }
  }

  private List<String> others() throws IOException {
    return names()
        .filter(name -> name.matches(PREFIX + "[0-9a-f-]+") && !name.startsWith(mine))
        .collect(toList());
  }

  private Stream<String> names() throws IOException {
    try {
      return Arrays.stream(files.names());
    } catch (FileNotFoundException gone) {
      // Whoever had it has come to the end, and removed the folder.
      return Stream.empty();
    }
  }

  /** Of the last one of these that is still there. */
  private String ownerOf(List<String> names) throws IOException {
    String owner = "another application";
    for (String name : names) {
      try {
        owner = new String(files.read(name), StandardCharsets.UTF_8);
      } catch (FileNotFoundException gone) {
        LOG.debug("{} is gone", name, gone);
      }
    }
    return owner;
  }

  private void write(long next) throws IOException {
    files.write(mine + next, new ByteBuffer[] {ByteBuffer.wrap(owner)});
  }

  private boolean isThere() throws IOException {
    return names().anyMatch((mine + number)::equals);
  }

  /**
   * Writes the next file and removes the last one, which stays the lock until the next is there.
   */
  synchronized void renew() {
    if (isOver || lostTo != null) {
      return;
    }
    try {
      String before = mine + number;
      boolean wasThere = isThere();
      if (wasThere) {
        write(number + 1);
        // It may have been taken over while this was written.
        wasThere = names().anyMatch(before::equals);
        if (wasThere) {
          number++;
          files.remove(before);
        } else {
          files.remove(mine + (number + 1));
        }
      }
      if (!wasThere) {
        isLost();
        whenLost.run();
      }
    } catch (IOException | RuntimeException e) {
      // The next time may find the file system again; who finds none in time takes over.
      LOG.warn("the lock of durable folder {} can't be renewed: {}", of, e.toString());
    }
  }

  private void isLost() throws IOException {
    lostTo = "another application";
    keeper.shutdown();
    lostTo = ownerOf(others());
  }

  /**
   * Whether another application has taken it over, looked up now.
   *
   * @return FENCED; null while it is held
   */
  synchronized RejoinException loss() {
    try {
      if (!isOver && lostTo == null && !isThere()) {
        isLost();
      }
    } catch (IOException e) {
      LOG.warn("the lock of durable folder {} can't be looked at: {}", of, e.toString());
    }
    if (lostTo == null) {
      return null;
    }
    return new RejoinException(
        RejoinException.Code.FENCED,
        "the durable folder "
            + of
            + " was taken over by "
            + lostTo
            + ", because this application did not write to it for "
            + SILENT_MILLIS / 1000
            + " s; that one trains on");
  }

  /** How many files {@link #remove} has removed so far. */
  long removed() {
    return removed;
  }

  /** Whether it is known that another application has taken it over. */
  boolean isKnownLost() {
    return lostTo != null;
  }

  /**
   * Removes the folder with all that is in it, if it is seen to be held; and ends. It stays locked
   * while that takes, which may be minutes; {@link #removed} says whether it gets on.
   */
  synchronized void remove() {
    try {
      List<String> there = names().collect(toList());
      if (isOver || lostTo != null || !there.contains(mine + number)) {
        return;
      }
      // The lists first: without one what is left of the pages is nothing that anybody takes for
      // all of them.
      there.sort(Comparator.comparing(name -> !name.endsWith(DurablePages.LIST)));
      long renewed = System.nanoTime();
      for (String name : there) {
        if (name.startsWith(mine)) {
          continue;
        }
        if (System.nanoTime() - renewed > TimeUnit.MILLISECONDS.toNanos(RENEW_MILLIS)) {
          renewed = System.nanoTime();
          renew();
          if (lostTo != null) {
            return;
          }
        }
        files.remove(name);
        removed++;
      }
      // The lock goes last: whoever comes in between waits, and finds all of it or nothing.
      close();
      files.removeIfEmpty();
    } catch (IOException e) {
      LOG.warn("durable folder {} can't be removed; remove it by hand: {}", of, e.toString());
    }
  }

  @Override
  public synchronized void close() {
    if (isOver) {
      return;
    }
    isOver = true;
    keeper.shutdown();
    try {
      if (lostTo == null) {
        // The one before it, too, where that could not be removed.
        for (String name : names().filter(one -> one.startsWith(mine)).collect(toList())) {
          files.remove(name);
        }
      }
    } catch (IOException e) {
      LOG.warn("the lock of durable folder {} can't be removed: {}", of, e.toString());
    }
  }
}
