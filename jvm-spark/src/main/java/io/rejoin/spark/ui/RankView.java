package io.rejoin.spark.ui;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** One rank: where it is and what it has been doing. Times are milliseconds since 1970. */
final class RankView {
  /** A stretch of time in one state; the last one of a rank is open. */
  static final class Stretch {
    private final RankState state;
    private final long from;
    private long until = Long.MAX_VALUE;

    private Stretch(RankState state, long from) {
      this.state = state;
      this.from = from;
    }

    RankState state() {
      return state;
    }

    long from() {
      return from;
    }

    /** The largest number while it lasts. */
    long until() {
      return until;
    }
  }

  private final int rank;
  private final List<Stretch> stretches = new ArrayList<>();

  /** Executors that have had the rank, the present one last. */
  private final Set<String> executors = new LinkedHashSet<>();

  private int incarnation;
  private int deaths;
  private long lineage;
  private long version;
  private long round;
  private long lastSeen;

  RankView(int rank, long at) {
    this.rank = rank;
    stretches.add(new Stretch(RankState.WAITING, at));
  }

  int rank() {
    return rank;
  }

  RankState state() {
    return last().state;
  }

  long since() {
    return last().from;
  }

  List<Stretch> stretches() {
    return Collections.unmodifiableList(stretches);
  }

  /** The one that it is on, or was on last; empty before it joined. */
  String executor() {
    String newest = "";
    for (String each : executors) {
      newest = each;
    }
    return newest;
  }

  /** Those that had it before, the oldest first. */
  List<String> formerExecutors() {
    List<String> former = new ArrayList<>(executors);
    former.remove(executor());
    return former;
  }

  int incarnation() {
    return incarnation;
  }

  /** Those that count against what it may die. */
  int deaths() {
    return deaths;
  }

  long lineage() {
    return lineage;
  }

  long version() {
    return version;
  }

  long round() {
    return round;
  }

  /** When the driver heard of it last; 0 if never. */
  long lastSeen() {
    return lastSeen;
  }

  void seen(long at) {
    lastSeen = Math.max(lastSeen, at);
  }

  void joined(int which, String executor, long at) {
    incarnation = which;
    executors.remove(executor);
    executors.add(executor);
    seen(at);
    enter(which == 0 ? RankState.LOADING : RankState.RESTORING, at);
  }

  void reached(long newLineage, long newVersion, long newRound, long at) {
    lineage = newLineage;
    version = newVersion;
    round = newRound;
    seen(at);
  }

  /**
   * Declared lost.
   *
   * @param died its last sign of life
   * @param howOften how many deaths of it count by now
   */
  void lost(long died, int howOften) {
    deaths = howOften;
    lastSeen = died;
    enter(RankState.LOST, died);
  }

  void enter(RankState state, long at) {
    if (last().state != state) {
      // A loss began before it was known: what seemed to last until then didn't.
      long from = Math.max(at, last().from);
      last().until = from;
      stretches.add(new Stretch(state, from));
    }
  }

  private Stretch last() {
    return stretches.get(stretches.size() - 1);
  }
}
