package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The rows between a rank's input and its model. Flink's thread adds rows and takes snapshots, the
 * trainer's thread takes batches.
 *
 * <p>It also keeps the rows of the newest version: a peer may not have that version yet, and then a
 * rank that comes back with it goes back by one.
 */
final class RowBuffer<T> {
  private final int limit;
  private final KeptRows<T> kept = new KeptRows<>();
  // Where each row that isn't in the model is, in the order in which the rows have come.
  private final ArrayDeque<SplitRows<T>> arrivals = new ArrayDeque<>();
  // How many of those wait for rows of another rank.
  private int blocked;
  private VersionState newest;
  // Nothing is dropped before it is known what this rank starts from.
  private boolean loaded;
  private boolean ended;
  private boolean finished;
  private boolean closed;

  /** One that is full when so many rows wait. */
  RowBuffer(int limit) {
    this.limit = limit;
  }

  /**
   * What one of Flink's snapshots had, of this rank or another one; called before anything else.
   *
   * @param state null for none
   * @throws RejoinException MISMATCH when a row was in two snapshots
   */
  synchronized void restore(VersionState state, List<SplitRows<T>> rows) {
    if (newest == null || state != null && state.version() > newest.version()) {
      newest = state;
    }
    kept.restore(rows);
  }

  /** How far one rank had read at such a snapshot, whichever rank that was. */
  synchronized void restoreRead(Positions read) {
    kept.restoreRead(read);
  }

  /**
   * The next row of a split whose rows come without numbers.
   *
   * @param hash of its bytes
   * @throws RejoinException MISMATCH when the model was trained on other rows of this split
   */
  synchronized void add(String split, T row, long hash) {
    add(kept.next(split), row, hash);
  }

  /**
   * The row of this number.
   *
   * @param row null for one that was filtered out
   * @param hash of its bytes
   * @throws RejoinException MISMATCH when the model was trained on other rows of this split, or the
   *     row isn't new
   */
  synchronized void add(String split, long number, T row, long hash) {
    add(kept.next(split, number), row, hash);
  }

  private void add(SplitRows<T> part, T row, long hash) {
    if (row == null) {
      part.skip();
    } else {
      part.add(row, hash);
    }
    boolean isTrained = loaded && part.next() <= newest.positions().consumed(part.name());
    if (finished && !isTrained && row != null) {
      throw SplitRows.others(
          newest.positions().consumed(part.name()) + " rows of " + part.name(),
          "another one has come");
    }
    if (closed || isTrained) {
      part.dropUntil(part.next(), newest == null ? Positions.NONE : newest.positions());
    } else if (row != null) {
      arrivals.add(part);
      blocked += loaded && isBlocked(part) ? 1 : 0;
    }
    notifyAll();
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

  /** Whether no row should be added before some are trained on. */
  synchronized boolean isFull() {
    return arrivals.size() >= limit;
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
    for (SplitRows<T> part : kept.parts()) {
      part.dropUntil(state.positions().consumed(part.name()), state.positions());
      for (int row = 0; row < part.size(); row++) {
        arrivals.add(part);
      }
    }
    countBlocked();
    notifyAll();
  }

  /**
   * Waits for a batch: until so many rows are there, the time is over (0: it never is), the input
   * has ended, or this is full of rows that wait for another rank.
   *
   * @return what this rank puts into the next version
   * @throws InterruptedException also when this is closed
   */
  synchronized List<Share> await(int size, long lingerMillis) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(lingerMillis);
    while (arrivals.size() - blocked < size && !ended && !isFull()) {
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
      if (share.numbers > 0) {
        rows(share, rows);
      }
    }
    refuseClosed();
    return rows;
  }

  /** A version is complete. */
  synchronized void complete(VersionState state) {
    Positions now = newest.positions();
    Map<SplitRows<T>, Integer> taken = new HashMap<>();
    for (SplitRows<T> part : kept.parts()) {
      long from = now.consumed(part.name());
      part.dropUntil(from, now);
      int rows = part.count(from, state.positions().consumed(part.name()));
      if (rows > 0) {
        taken.put(part, rows);
      }
    }
    dropArrivals(taken);
    newest = state;
    countBlocked();
    notifyAll();
  }

  /** What a snapshot of Flink's needs, all of one moment. */
  synchronized List<SplitRows<T>> kept() {
    List<SplitRows<T>> copies = new ArrayList<>();
    kept.parts().forEach(part -> copies.add(part.copy()));
    return copies;
  }

  /** How far this rank has read each split, as far as the rows before are known. */
  synchronized Positions read() {
    return kept.read();
  }

  private void rows(Share share, List<T> into) throws InterruptedException {
    long last = share.first + share.numbers;
    SplitRows<T> part = kept.with(share.split, share.first);
    while (part == null || part.next() < last) {
      refuseClosed();
      if (ended || part != null && kept.isClosed(part)) {
        throw SplitRows.others(share.toString(), "the last of them doesn't come");
      }
      wait();
      part = kept.with(share.split, share.first);
    }
    if (part.first() > share.first) {
      throw SplitRows.others(share.toString(), "the first one here is row " + part.first());
    }
    if (part.fingerprint(share.first, last, into) != share.fingerprint) {
      throw SplitRows.others(share.toString(), "some have other bytes, or another order, here");
    }
  }

  private void refuseClosed() throws InterruptedException {
    if (closed) {
      throw new InterruptedException("training has ended here");
    }
  }

  /** Whether another rank has to give the rows before these first. */
  private boolean isBlocked(SplitRows<T> part) {
    return part.first() > newest.positions().consumed(part.name());
  }

  private void countBlocked() {
    blocked = 0;
    for (SplitRows<T> part : kept.parts()) {
      blocked += isBlocked(part) ? part.size() : 0;
    }
  }

  /**
   * The oldest rows that aren't blocked, at most so many, and the numbers without a row between.
   */
  private List<Share> shares(int size) {
    Map<SplitRows<T>, Integer> counts = new HashMap<>();
    Iterator<SplitRows<T>> next = arrivals.iterator();
    for (int taken = 0; taken < size && next.hasNext(); ) {
      SplitRows<T> part = next.next();
      if (!isBlocked(part)) {
        counts.merge(part, 1, Integer::sum);
        taken++;
      }
    }
    List<Share> shares = new ArrayList<>();
    for (SplitRows<T> part : kept.parts()) {
      long first = Math.max(part.first(), newest.positions().consumed(part.name()));
      if (part.next() > first) {
        long end = isBlocked(part) ? first : part.end(first, counts.getOrDefault(part, 0));
        long fingerprint = part.fingerprint(first, end, null);
        shares.add(new Share(part.name(), first, end - first, fingerprint));
      }
    }
    return shares;
  }

  private void dropArrivals(Map<SplitRows<T>, Integer> taken) {
    int left = taken.values().stream().mapToInt(Integer::intValue).sum();
    ArrayDeque<SplitRows<T>> passed = new ArrayDeque<>();
    while (left > 0 && !arrivals.isEmpty()) {
      SplitRows<T> part = arrivals.poll();
      int rows = taken.getOrDefault(part, 0);
      if (rows > 0) {
        taken.put(part, rows - 1);
        left--;
      } else {
        passed.push(part);
      }
    }
    passed.forEach(arrivals::push);
  }
}
