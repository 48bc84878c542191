package io.rejoin.flink;

import io.rejoin.RowFingerprint;
import java.io.Serializable;
import java.util.Collection;
import java.util.Map;
import java.util.stream.Collectors;

/** What is known of the rows that a gang trains on, when each rank had all its rows before. */
final class GangRows implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The bytes of the rank that has most. */
  final long mostBytes;

  /** How many ranks were in the process with most of them. */
  final int mostRanksOfProcess;

  private GangRows(long mostBytes, int mostRanksOfProcess) {
    this.mostBytes = mostBytes;
    this.mostRanksOfProcess = mostRanksOfProcess;
  }

  /** Of the ranks that have made these offers; null when one of them hasn't all its rows. */
  static GangRows of(Collection<Offer> offers) {
    if (offers.stream().anyMatch(offer -> offer.rows == null)) {
      return null;
    }
    Map<String, Long> processes =
        offers.stream().collect(Collectors.groupingBy(o -> o.process, Collectors.counting()));
    long bytes =
        offers.stream().map(offer -> offer.rows).mapToLong(RowFingerprint::bytes).max().orElse(0);
    long ranks = processes.values().stream().mapToLong(Long::longValue).max().orElse(1);
    return new GangRows(bytes, (int) ranks);
  }
}
