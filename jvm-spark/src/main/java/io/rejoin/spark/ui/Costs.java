package io.rejoin.spark.ui;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalLong;

/** What the deaths of a job have cost, and what they would have cost without recovery. */
final class Costs {
  private final List<Recovery> recoveries;
  private final long ranks;
  private final long trainsSince;
  private final long now;

  /**
   * Of these recoveries.
   *
   * @param trainsSince when the first version was entered; 0 if none was
   * @param now the end of the job, or the present
   */
  Costs(List<Recovery> recoveries, long ranks, long trainsSince, long now) {
    this.recoveries = new ArrayList<>(recoveries);
    this.recoveries.sort(Comparator.comparingLong(Recovery::died));
    this.ranks = ranks;
    this.trainsSince = trainsSince;
    this.now = now;
  }

  /** A time in which training stood still: several deaths at once are one of them. */
  static final class Standstill {
    private final long from;
    private long until;
    private long replay;

    private Standstill(long from) {
      this.from = from;
    }

    long from() {
      return from;
    }

    long until() {
      return until;
    }
  }

  /** In the order of time; none overlaps another one. */
  List<Standstill> standstills() {
    List<Standstill> all = new ArrayList<>();
    Standstill last = null;
    for (Recovery each : recoveries) {
      if (last == null || each.died() > last.until) {
        last = new Standstill(each.died());
        all.add(last);
      }
      last.until = Math.max(last.until, Math.min(each.ended(), now));
      last.replay = Math.max(last.replay, each.millis(Recovery.Part.REPLAY).orElse(0));
    }
    return all;
  }

  /** For how long training has waited for ranks that were lost. */
  long stoodStillMillis() {
    return standstills().stream().mapToLong(each -> each.until - each.from).sum();
  }

  /** Of all recoveries together; empty if none has come so far. */
  OptionalLong millis(Recovery.Part part) {
    long sum = 0;
    boolean isThere = false;
    for (Recovery each : recoveries) {
      OptionalLong one = each.millis(part);
      sum += one.orElse(0);
      isThere |= one.isPresent();
    }
    return isThere ? OptionalLong.of(sum) : OptionalLong.empty();
  }

  /** Rounds that ranks which came back have computed once more. */
  long roundsAgain() {
    return recoveries.stream().mapToLong(Recovery::roundsAgain).sum();
  }

  /**
   * What would have been computed once more had each death ended all tasks: by every rank, all that
   * it had trained until then, less what was computed again in truth while the others waited. The
   * rest (to notice, to start a task, to read rows) would have been the same. An estimate, in
   * milliseconds of one executor.
   */
  long savedMillis() {
    long saved = 0;
    long stood = 0;
    for (Standstill each : standstills()) {
      long trained = trainsSince == 0 ? 0 : Math.max(0, each.from - trainsSince - stood);
      saved += Math.max(0, ranks * (trained - each.replay));
      stood += each.until - each.from;
    }
    return saved;
  }
}
