package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * The rows between a rank's input and its model. Flink's thread adds rows and takes snapshots, the
 * trainer's thread takes batches.
 *
 * <p>It also keeps the rows of the newest version: a peer may not have that version yet, and then a
 * rank that comes back with it goes back by one.
 */
final class RowBuffer<T> {
  private final TreeMap<String, SplitRows<T>> splits = new TreeMap<>();
  // The split of each row that isn't in the model, in the order in which the rows have come.
  private final ArrayDeque<SplitRows<T>> arrivals = new ArrayDeque<>();
  private VersionState newest;
  // Nothing is dropped before it is known what this rank starts from.
  private boolean loaded;
  private boolean ended;
  private boolean finished;
  private boolean closed;

  /** What one of Flink's snapshots had; called before anything else. */
  synchronized void restore(VersionState state, List<SplitRows<T>> kept) {
    if (newest == null || state != null && state.version() > newest.version()) {
      newest = state;
    }
    for (SplitRows<T> split : kept) {
      splits.put(split.name(), split);
      for (int row = 0; row < split.size(); row++) {
        arrivals.add(split);
      }
    }
  }

  /**
   * The next row of a split.
   *
   * @param hash of its bytes
   * @throws RejoinException MISMATCH when the model was trained on other rows of this split
   */
  synchronized void add(String name, T row, long hash) {
    SplitRows<T> split = splits.computeIfAbsent(name, n -> new SplitRows<>(n, 0, 0L));
    split.add(row, hash);
    boolean isTrained = loaded && split.next() <= newest.positions().consumed(name);
    if (finished && !isTrained) {
      throw SplitRows.others(
          newest.positions().consumed(name) + " rows of " + name, "another one has come");
    }
    if (closed || isTrained) {
      split.dropUntil(split.next(), newest == null ? Positions.NONE : newest.positions());
    } else {
      arrivals.add(split);
      notifyAll();
    }
  }

  /** No row follows. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  /** All rows of all ranks are in the model. */
  synchronized void finish() {
    finished = true;
  }

  /** Nobody trains any more: who waits is sent away, and rows that come are dropped. */
  synchronized void close() {
    closed = true;
    arrivals.clear();
    notifyAll();
  }

  /** How many rows wait to be trained on. */
  synchronized int waiting() {
    return arrivals.size();
  }

  /** The newest state that this rank has; null before there is one. */
  synchronized VersionState newest() {
    return newest;
  }

  /**
   * Training goes on from this state, whatever this rank had.
   *
   * @throws RejoinException MISMATCH when that state was trained on other rows than have come here
   */
  synchronized void load(VersionState state) {
    newest = state;
    loaded = true;
    arrivals.clear();
    for (SplitRows<T> split : splits.values()) {
      split.dropUntil(state.positions().consumed(split.name()), state.positions());
      for (int row = 0; row < split.size(); row++) {
        arrivals.add(split);
      }
    }
    notifyAll();
  }

  /**
   * Waits for a batch: until so many rows are there, the time is over (0: it never is), or the
   * input has ended.
   *
   * @return what this rank puts into the next version
   * @throws InterruptedException also when this is closed
   */
  synchronized List<Share> await(int size, long lingerMillis) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(lingerMillis);
    while (arrivals.size() < size && !ended) {
      refuseClosed();
      long left = lingerMillis == 0 ? Long.MAX_VALUE : deadline - System.nanoTime();
      if (left <= 0) {
        break;
      }
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
    refuseClosed();
    return shares(size);
  }

  /** Whether no row is left, now or later. */
  synchronized boolean hasEnded() {
    return ended && arrivals.isEmpty();
  }

  /**
   * The rows of these shares, by split and number. An earlier incarnation may have made the shares:
   * this waits until the rows have come again.
   *
   * @throws RejoinException MISMATCH when they are other rows than the shares were made of
   */
  synchronized List<T> rows(List<Share> shares) throws InterruptedException {
    List<T> rows = new ArrayList<>();
    for (Share share : shares) {
      if (share.rows > 0) {
        rows(share, rows);
      }
    }
    refuseClosed();
    return rows;
  }

  /** A version is complete. */
  synchronized void complete(VersionState state) {
    Positions now = newest.positions();
    Map<SplitRows<T>, Long> taken = new HashMap<>();
    for (SplitRows<T> split : splits.values()) {
      split.dropUntil(now.consumed(split.name()), now);
      long first = Math.max(split.first(), now.consumed(split.name()));
      long rows = state.positions().consumed(split.name()) - first;
      if (rows > 0) {
        taken.put(split, rows);
      }
    }
    dropArrivals(taken);
    newest = state;
    notifyAll();
  }

  /** What a snapshot of Flink's needs, all of one moment. */
  synchronized List<SplitRows<T>> kept() {
    List<SplitRows<T>> kept = new ArrayList<>();
    splits.values().forEach(split -> kept.add(split.copy()));
    return kept;
  }

  private void rows(Share share, List<T> into) throws InterruptedException {
    long last = share.first + share.rows;
    while (!splits.containsKey(share.split) || splits.get(share.split).next() < last) {
      refuseClosed();
      if (ended) {
        throw SplitRows.others(share.toString(), "the input has ended before the last of them");
      }
      wait();
    }
    SplitRows<T> split = splits.get(share.split);
    if (split.first() > share.first) {
      throw SplitRows.others(share.toString(), "the first one here is row " + split.first());
    }
    if (split.fingerprint(share.first, last, into) != share.fingerprint) {
      throw SplitRows.others(share.toString(), "some have other bytes, or another order, here");
    }
  }

  private void refuseClosed() throws InterruptedException {
    if (closed) {
      throw new InterruptedException("training has ended here");
    }
  }

  /**
   * The oldest rows, at most so many. A split whose first row here isn't the next one of the model
   * waits until another rank, which has the rows before, has given them.
   */
  private List<Share> shares(int size) {
    Positions positions = newest.positions();
    Map<SplitRows<T>, Integer> counts = new HashMap<>();
    Iterator<SplitRows<T>> next = arrivals.iterator();
    for (int taken = 0; taken < size && next.hasNext(); ) {
      SplitRows<T> split = next.next();
      if (split.first() <= positions.consumed(split.name())) {
        counts.merge(split, 1, Integer::sum);
        taken++;
      }
    }
    List<Share> shares = new ArrayList<>();
    for (SplitRows<T> split : splits.values()) {
      long first = Math.max(split.first(), positions.consumed(split.name()));
      int count = counts.getOrDefault(split, 0);
      if (split.next() > first) {
        long fingerprint = split.fingerprint(first, first + count, null);
        shares.add(new Share(split.name(), first, count, fingerprint));
      }
    }
    return shares;
  }

  private void dropArrivals(Map<SplitRows<T>, Long> taken) {
    long left = taken.values().stream().mapToLong(Long::longValue).sum();
    ArrayDeque<SplitRows<T>> passed = new ArrayDeque<>();
    while (left > 0 && !arrivals.isEmpty()) {
      SplitRows<T> split = arrivals.poll();
      long rows = taken.getOrDefault(split, 0L);
      if (rows > 0) {
        taken.put(split, rows - 1);
        left--;
      } else {
        passed.push(split);
      }
    }
    passed.forEach(arrivals::push);
  }
}
