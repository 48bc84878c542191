package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rows between a rank's input and its model. Flink's thread adds rows, through {@link Inbox},
 * and takes snapshots, the trainer's thread takes batches. Nothing but adding a row looks at each
 * row.
 *
 * <p>It also keeps the rows of the newest version: a peer may not have that version yet, and then a
 * rank that comes back with it goes back by one.
 */
final class RowBuffer<T> {
  private static final Logger LOG = LoggerFactory.getLogger(RowBuffer.class);
  private static final long REPORT_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final int limit;
  private final Runnable look;
  private final ContentHash<T> hash;
  private final KeptRows<T> kept = new KeptRows<>();
  private final Arrivals<T> arrivals = new Arrivals<>();
  // How many of those wait for rows of another rank.
  private int blocked;
  // What snapshots had, in the order in which it is in them.
  private final List<Piece> restored = new ArrayList<>();
  // Set with the last row that has room, and until a quarter of the room is there again.
  private boolean full;
  // Whether rows have to come that an earlier incarnation had; others may come before them.
  private boolean recalls;
  // Whether the trainer's thread waits for rows.
  private volatile boolean awaited;
  // How many it waits for; with fewer it isn't woken. 0: for certain ones, so it looks at each.
  private int wanted;
  private VersionState newest;
  // Whether a snapshot had rows of this rank or another one for it.
  private boolean hasRestored;
  // Of the split that the last row was of: how many rows are in the model. Null: look again.
  private SplitRows<T> current;
  private long currentConsumed;
  // Nothing is dropped before it is known what this rank starts from.
  private boolean loaded;
  private boolean ended;
  // Whether that was the end of an input that has none.
  private boolean cutOff;
  // The split of which no row may come to another rank. Null: there is none.
  private String own;
  // Whether nothing is given before all rows of it that are in the model have come again.
  private boolean catchesUp;
  private boolean finished;
  private boolean closed;

  /**
   * One that is full when so many rows wait.
   *
   * @param hash of rows, for the trainer's thread
   * @param look has Flink's thread look here: bring the rows that it has, and see whether there is
   *     room; called by any thread
   */
  RowBuffer(int limit, ContentHash<T> hash, Runnable look) {
    this.limit = limit;
    this.hash = hash;
    this.look = look;
  }

  /**
   * What one of Flink's snapshots had, of this rank or another one; called before anything else.
   *
   * @param state null for none
   * @param rows as {@link #kept} has given them
   * @throws RejoinException MISMATCH when a row was in two snapshots
   */
  synchronized void restore(VersionState state, List<SplitRows<T>> rows) {
    if (newest == null || state != null && state.version() > newest.version()) {
      newest = state;
    }
    hasRestored |= !rows.isEmpty();
    rows.forEach(part -> restored.add(new Piece(part.name(), part.first(), part.size())));
    kept.restore(rows);
    arrivals.clear();
    restored.forEach(piece -> arrivals.add(kept.with(piece.split, piece.first), piece.rows));
  }

  /** Rows of a split that were restored, and came one after the other. */
  private static final class Piece {
    private final String split;
    private final long first;
    private final int rows;

    Piece(String split, long first, int rows) {
      this.split = split;
      this.first = first;
      this.rows = rows;
    }
  }

  /** How far ranks had read that were restored when the gang began; called before it is loaded. */
  synchronized void othersRead(List<Positions> read) {
    kept.othersRead(read);
  }

  /**
   * Rows that have come, in their order.
   *
   * @throws RejoinException MISMATCH when the model was trained on other rows of a split, or a row
   *     isn't new
   */
  synchronized void add(Inbox<T> inbox) {
    SplitRows<T> part = null;
    int rows = 0;
    for (int i = 0; i < inbox.size(); i++) {
      String split = inbox.split(i);
      long number = inbox.number(i);
      SplitRows<T> next = number == Inbox.NEXT ? kept.next(split) : kept.next(split, number);
      if (next != part) {
        arrived(part, rows);
        part = next;
        rows = 0;
      }
      rows += add(part, inbox.row(i), inbox.hash(i)) ? 1 : 0;
    }
    arrived(part, rows);
    if (awaited && (hasWanted() || full)) {
      notifyAll();
    }
  }

  /** Whether a batch has the rows that it waits for; else only its time or an end is waited for. */
  private boolean hasWanted() {
    return wanted == 0 || arrivals.size() - blocked >= wanted;
  }

  /** Whether the row waits to be trained on. */
  private boolean add(SplitRows<T> part, T row, long hash) {
    if (row == null) {
      part.skip();
    } else {
      part.add(row, hash);
    }
    boolean isTrained = loaded && part.next() <= consumed(part);
    if (finished && !isTrained && row != null) {
      throw SplitRows.others(consumed(part) + " rows of " + part.name(), "another one has come");
    }
    if (isTrained) {
      part.dropUntil(part.next(), newest.positions());
    }
    return row != null && !isTrained;
  }

  /** So many rows of a part wait, behind all others. */
  private void arrived(SplitRows<T> part, int rows) {
    if (rows > 0) {
      arrivals.add(part, rows);
      blocked += loaded && isBlocked(part) ? rows : 0;
      full |= !closed && arrivals.size() >= limit;
    }
  }

  /**
   * No row of this split may come to another rank: when all that are in the model haven't come here
   * again, others have taken them for rows of their own.
   *
   * @param catchesUp to give nothing before they have; else it is seen when the input ends
   */
  synchronized void owns(String split, boolean catchesUp) {
    this.own = split;
    this.catchesUp = catchesUp;
  }

  /** No row follows. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  /** No row follows, though the input has no end: Flink stops the job, with {@code --drain}. */
  synchronized void cutOff() {
    cutOff = true;
    end();
  }

  /** All rows of all ranks are in the model. */
  synchronized void finish() {
    finished = true;
  }

  /**
   * Nobody trains any more: who waits is sent away. What isn't in the model stays here, for
   * snapshots that Flink takes before it hears why.
   */
  synchronized void close() {
    closed = true;
    notifyAll();
    if (full) {
      full = false;
      look.run();
    }
  }

  /** How many rows wait to be trained on. */
  synchronized int waiting() {
    return closed ? 0 : arrivals.size();
  }

  /** Whether no row should be added before some are trained on; {@code look} says when it ends. */
  synchronized boolean isFull() {
    return full && !recalls;
  }

  /** Whether the trainer's thread waits for rows. */
  boolean isAwaited() {
    return awaited;
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
    restored.clear();
    Map<SplitRows<T>, Integer> waiting = arrivals.counts();
    Map<SplitRows<T>, Integer> trained = new HashMap<>();
    List<SplitRows<T>> parts = kept.parts();
    for (int i = parts.size() - 1; i >= 0; i--) {
      SplitRows<T> part = parts.get(i);
      part.dropUntil(state.positions().consumed(part.name()), state.positions());
      int more = part.size() - waiting.getOrDefault(part, 0);
      if (more > 0) {
        // They were the version that this rank goes back by, or a snapshot's that had no order.
        arrivals.addFirst(part, more);
      } else if (more < 0) {
        trained.put(part, -more);
      }
    }
    arrivals.drop(trained);
    full |= arrivals.size() >= limit;
    changed();
  }

  /**
   * Waits for a batch: until so many rows are there, the time is over (0: it never is), the input
   * has ended, or this is full of rows that wait for another rank.
   *
   * @return what this rank puts into the next version
   * @throws RejoinException MISMATCH when the input has ended before all rows came that are in the
   *     model
   * @throws InterruptedException also when this is closed
   */
  synchronized List<Share> await(int size, long lingerMillis) throws InterruptedException {
    awaitOwn();
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(lingerMillis);
    wanted = size;
    while (arrivals.size() - blocked < size && !ended && !full) {
      long left = lingerMillis == 0 ? Long.MAX_VALUE : deadline - System.nanoTime();
      if (left <= 0) {
        break;
      }
      await(left);
    }
    wanted = 0;
    awaited = false;
    refuseClosed();
    refuseFewer();
    return shares(size);
  }

  private void awaitOwn() throws InterruptedException {
    long reported = System.nanoTime();
    while (catchesUp && !ended && ownRead() < ownTrained()) {
      await(REPORT_NANOS);
      if (System.nanoTime() - reported >= REPORT_NANOS) {
        reported = System.nanoTime();
        LOG.warn(
            "{} has read {} rows again, and {} are in the model; no rank goes on before",
            own,
            ownRead(),
            ownTrained());
      }
    }
    catchesUp = false;
  }

  /** Waits until rows come, something ends, or the time is over. */
  private void await(long nanos) throws InterruptedException {
    refuseClosed();
    boolean first = !awaited;
    awaited = true;
    if (first) {
      // From now on each row is brought at once; those that are under way are looked for.
      look.run();
    }
    TimeUnit.NANOSECONDS.timedWait(this, nanos);
  }

  /** Whether no row is left, now or later. */
  synchronized boolean hasEnded() {
    return ended && arrivals.size() == 0;
  }

  /**
   * The rows of these shares, by split and number. An earlier incarnation may have made the shares:
   * this waits until the rows have come again, and there is room for them.
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
    recalls = false;
    awaited = false;
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
      kept.shrink(part);
      int rows = part.count(from, state.positions().consumed(part.name()));
      if (rows > 0) {
        taken.put(part, rows);
      }
    }
    arrivals.drop(taken);
    newest = state;
    changed();
  }

  /** The model has other rows than before. */
  private void changed() {
    current = null;
    blocked = 0;
    for (SplitRows<T> part : kept.parts()) {
      blocked += isBlocked(part) ? part.size() : 0;
    }
    makeRoom();
  }

  // Not for each row, since that costs; not for much more, since Flink's checkpoints wait for it.
  private void makeRoom() {
    if (full && arrivals.size() <= limit - limit / 4) {
      full = false;
      look.run();
    }
  }

  /**
   * What a snapshot of Flink's needs, all of one moment: first the newest version's rows, by split,
   * then those that wait, in pieces in the order in which they have come. A batch has to have the
   * same rows after a restore.
   */
  synchronized List<SplitRows<T>> kept() {
    Map<SplitRows<T>, List<Integer>> counts = new HashMap<>();
    Map<SplitRows<T>, Integer> waiting = arrivals.counts();
    List<SplitRows<T>> order = new ArrayList<>();
    for (SplitRows<T> part : kept.parts()) {
      counts.put(part, new ArrayList<>());
      int trained = part.size() - waiting.getOrDefault(part, 0);
      if (trained > 0 || part.size() == 0) {
        counts.get(part).add(trained);
        order.add(part);
      }
    }
    arrivals.forEach(
        (part, rows) -> {
          counts.get(part).add(rows);
          order.add(part);
        });
    Map<SplitRows<T>, Iterator<SplitRows<T>>> pieces = new HashMap<>();
    counts.forEach((part, rows) -> pieces.put(part, part.pieces(rows).iterator()));
    List<SplitRows<T>> all = new ArrayList<>();
    order.forEach(part -> all.add(pieces.get(part).next()));
    return all;
  }

  /** How far splits were read of which this rank has rows since a restore; empty without one. */
  synchronized Optional<Positions> restoredRead() {
    return hasRestored ? Optional.of(kept.read()) : Optional.empty();
  }

  private void rows(Share share, List<T> into) throws InterruptedException {
    long last = share.first + share.numbers;
    SplitRows<T> part = kept.with(share.split, share.first);
    while (part == null || part.next() < last) {
      refuseClosed();
      if (ended) {
        throw fewer(share.toString(), part == null ? share.first : part.next());
      }
      if (part != null && kept.isClosed(part)) {
        throw SplitRows.others(share.toString(), "the last of them doesn't come");
      }
      recalls = true;
      await(Long.MAX_VALUE);
      part = kept.with(share.split, share.first);
    }
    if (part.first() > share.first) {
      throw SplitRows.others(share.toString(), "the first one here is row " + part.first());
    }
    if (part.fingerprint(share.first, last) != share.fingerprint) {
      throw SplitRows.others(share.toString(), "some have other bytes, or another order, here");
    }
    try {
      part.copyTo(into, share.first, last, hash);
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
  }

  /** Else what was another reader's might be trained on twice, as rows of this one. */
  private void refuseFewer() {
    if (ended && own != null && ownRead() < ownTrained()) {
      throw fewer("rows 0 to " + (ownTrained() - 1) + " of " + own, ownRead());
    }
  }

  /** The input has ended before these rows have come again. */
  private RejoinException fewer(String rows, long after) {
    if (!cutOff) {
      return SplitRows.others(rows, "the input has ended after " + after);
    }
    return new RejoinException(
        RejoinException.Code.IO,
        rows
            + " are in the model and were being read again, and Flink ended the input after "
            + after
            + ". Stop a job with --drain when all ranks work together, or without --drain at any"
            + " time (docs/flink.md, Checkpoints and savepoints)");
  }

  private long ownTrained() {
    return newest.positions().consumed(own);
  }

  private long ownRead() {
    return kept.next(own).next();
  }

  private void refuseClosed() throws InterruptedException {
    if (closed) {
      throw new InterruptedException("training has ended here");
    }
  }

  /** Whether another rank has to give the rows before these first. */
  private boolean isBlocked(SplitRows<T> part) {
    return part.first() > consumed(part);
  }

  private long consumed(SplitRows<T> part) {
    if (part != current) {
      current = part;
      currentConsumed = newest.positions().consumed(part.name());
    }
    return currentConsumed;
  }

  /**
   * The oldest rows that aren't blocked, at most so many, and the numbers without a row between.
   */
  private List<Share> shares(int size) {
    Map<SplitRows<T>, Integer> counts = arrivals.oldest(size, part -> !isBlocked(part));
    List<Share> shares = new ArrayList<>();
    for (SplitRows<T> part : kept.parts()) {
      long first = Math.max(part.first(), newest.positions().consumed(part.name()));
      if (part.next() > first) {
        long end = isBlocked(part) ? first : part.end(first, counts.getOrDefault(part, 0));
        long fingerprint = part.fingerprint(first, end);
        shares.add(new Share(part.name(), first, end - first, fingerprint));
      }
    }
    return shares;
  }
}
