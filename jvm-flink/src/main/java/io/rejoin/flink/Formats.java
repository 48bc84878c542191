package io.rejoin.flink;

import io.rejoin.RejoinException;

/** Numbers of formats of what is in Flink's snapshots. */
final class Formats {
  private Formats() {}

  /**
   * Refuses what another release has written in a way that this one doesn't know.
   *
   * @throws RejoinException INCOMPATIBLE with both numbers
   */
  static void check(String what, int written, int known) {
    if (written != known) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          what + "'s state is of format " + written + "; this release of Rejoin reads " + known);
    }
  }
}
