package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Decides which gang a rank belongs to; pure rules, without clocks, sockets and threads.
 *
 * <p>A gang is the ranks' life together from one common start: an attempt that comes later joins
 * the gang that is there. When a gang has ended, because nobody is left who holds its state or
 * because its job has failed, or when Flink has reset all subtasks, the next one begins as soon as
 * all ranks have said what they have: with the newest state of all.
 */
final class Gathering {
  /** So many gangs in a row may end with BAD_STATE, and no more than a version further each. */
  private static final int MOST_MISUSES = 3;

  private final int world;
  private final TreeMap<Integer, Offer> offers = new TreeMap<>();
  private final TreeMap<Integer, Integer> attempts = new TreeMap<>();
  private final TreeSet<Integer> holders = new TreeSet<>();
  private final TreeMap<Integer, Integer> present = new TreeMap<>();
  // Of the gang's ranks, where each had all its rows when the gang began.
  private final TreeMap<Integer, RowFingerprint> rows = new TreeMap<>();
  // Of ranks that have come to a savepoint that stops the job: their attempts.
  private final TreeMap<Integer, Integer> stopping = new TreeMap<>();
  private int gang;
  private int version;
  private int misuses;
  private boolean running;
  private boolean stopped;

  Gathering(int world) {
    this.world = world;
  }

  /** What follows from an offer. */
  enum Decision {
    /** The attempt isn't the rank's newest one. */
    OUTDATED,
    /** Others have to ask first. */
    WAIT,
    /** The gang that is there. */
    JOIN,
    /** A gang has to be begun. */
    BEGIN,
    /** There will be no gang any more. */
    STOPPED
  }

  /**
   * A rank asks.
   *
   * @throws RejoinException MISMATCH when two ranks have different states of the newest version, or
   *     a rank comes back with other rows than the gang has trained on; BAD_STATE when one gang
   *     after the other ends by a call that can't be made
   */
  Decision asked(Offer offer) {
    if (offer.attempt < attempts.getOrDefault(offer.rank, 0)) {
      return Decision.OUTDATED;
    }
    attempts.put(offer.rank, offer.attempt);
    if (stopped) {
      return Decision.STOPPED;
    }
    if (running && offer.ended == gang) {
      end();
      refuseMisuse(offer);
    }
    if (running) {
      checkRows(offer);
      return Decision.JOIN;
    }
    offers.put(offer.rank, offer);
    if (offers.size() < world) {
      return Decision.WAIT;
    }
    checkNewest();
    return Decision.BEGIN;
  }

  /** What a program does wrong it does in each gang again, and gangs would begin without an end. */
  private void refuseMisuse(Offer offer) {
    boolean wentOn = offer.version > version + 1;
    misuses = offer.misuse.isEmpty() ? 0 : wentOn ? 1 : misuses + 1;
    if (misuses >= MOST_MISUSES) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE,
          misuses
              + " gangs in a row have ended for rank "
              + offer.rank
              + ", the last one at version "
              + offer.version
              + ", with: "
              + offer.misuse
              + ". Look at what the trainer calls: its model, and the communicator, whose"
              + " checkpoints, load and end are Rejoin's to call");
    }
  }

  /** A gang was begun, as {@link Decision#BEGIN} says; its number, from 1. */
  int begun() {
    for (Offer offer : offers.values()) {
      if (offer.rows != null) {
        rows.put(offer.rank, offer.rows);
      }
    }
    running = true;
    version = newest().version;
    offers.clear();
    holders.clear();
    return ++gang;
  }

  /** What is known of the ranks' rows, when all have asked; null where these are still to come. */
  GangRows rows() {
    return GangRows.of(offers.values());
  }

  /** What {@link Offer#read} says of restored ranks, when all have asked. */
  List<byte[]> read() {
    return offers.values().stream()
        .map(offer -> offer.read)
        .filter(read -> read.length > 0)
        .collect(Collectors.toList());
  }

  /** The present or last gang's number. */
  int gang() {
    return gang;
  }

  boolean isRunning() {
    return running;
  }

  /** The offer with the newest state, when all have asked. */
  Offer newest() {
    Offer newest = null;
    for (Offer offer : offers.values()) {
      newest = newest == null || offer.version > newest.version ? offer : newest;
    }
    return newest;
  }

  /** An attempt of a rank runs, and is going to ask. */
  void ready(int rank, int attempt) {
    present.merge(rank, attempt, Math::max);
  }

  /** A rank holds the gang's state. */
  void started(Started started) {
    if (running && started.gang == gang && started.attempt == attempts.get(started.rank)) {
      holders.add(started.rank);
    }
  }

  /**
   * An attempt of a rank is over.
   *
   * @return whether nobody is left who holds the gang's state: the gang is over
   */
  boolean failed(int rank, int attempt) {
    attempts.merge(rank, attempt + 1, Math::max);
    present.computeIfPresent(rank, (r, other) -> other <= attempt ? null : other);
    stopping.computeIfPresent(rank, (r, other) -> other <= attempt ? null : other);
    offers.computeIfPresent(rank, (r, offer) -> offer.attempt <= attempt ? null : offer);
    boolean wasLast = holders.remove(rank) && holders.isEmpty();
    if (running && wasLast) {
      end();
      return true;
    }
    return false;
  }

  /** A rank has come to a savepoint that stops the job; the attempt fails where that does. */
  void stopping(Stopping rank) {
    if (rank.attempt >= attempts.getOrDefault(rank.rank, 0)) {
      stopping.put(rank.rank, rank.attempt);
    }
  }

  /** Whether Flink is about to stop the job with a savepoint. */
  boolean isStopping() {
    return stopped || !stopping.isEmpty();
  }

  /** Flink has stopped a rank's task with a savepoint, and so stops all. */
  void stopped(Stopped rank) {
    if (rank.attempt >= attempts.getOrDefault(rank.rank, 0)) {
      end();
      stopped = true;
    }
  }

  /**
   * Flink couldn't drain the job with a savepoint: all attempts that run end, and whatever they
   * still ask for isn't theirs any more.
   */
  void drainHasFailed() {
    present.forEach((rank, attempt) -> attempts.merge(rank, attempt + 1, Math::max));
    present.clear();
    stopping.clear();
    end();
  }

  /** All attempts are over, and the next ones begin from a checkpoint of Flink's. */
  void reset() {
    present.clear();
    stopping.clear();
    end();
    stopped = false;
  }

  /** Which ranks haven't asked yet. */
  List<Integer> missing() {
    List<Integer> missing = new ArrayList<>();
    for (int rank = 0; rank < world; rank++) {
      if (!offers.containsKey(rank)) {
        missing.add(rank);
      }
    }
    return missing;
  }

  /** Which of those have no attempt that runs. */
  List<Integer> absent() {
    List<Integer> absent = missing();
    absent.removeAll(present.keySet());
    return absent;
  }

  private void end() {
    running = false;
    offers.clear();
    holders.clear();
    rows.clear();
  }

  private void checkRows(Offer offer) {
    RowFingerprint expected = rows.get(offer.rank);
    if (expected != null && !expected.equals(offer.rows)) {
      throw expected.isNot(
          RejoinException.Code.MISMATCH,
          offer.rows,
          offer.rank,
          "A source has to give each subtask the same rows in the same order whenever it reads"
              + " them again (docs/flink.md, Sources)");
    }
  }

  private void checkNewest() {
    Offer newest = newest();
    List<String> digests =
        offers.values().stream()
            .filter(offer -> offer.version == newest.version && newest.version > 0)
            .map(offer -> "rank " + offer.rank + " has " + offer.digest)
            .collect(Collectors.toList());
    if (offers.values().stream()
        .anyMatch(o -> o.version == newest.version && !o.digest.equals(newest.digest))) {
      throw new RejoinException(
          RejoinException.Code.MISMATCH,
          "ranks have different states of version "
              + newest.version
              + ": "
              + String.join(", ", digests)
              + ". Begin from another checkpoint or savepoint, and see that TrainerFunction.write"
              + " gives equal bytes for equal models");
    }
  }
}
