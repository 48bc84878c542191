package io.rejoin.it.bench;

import java.io.Serializable;
import java.util.Arrays;
import java.util.function.IntConsumer;

/**
 * Notes in the worker, on the thread that trains, when each round ends: the same clock for both
 * sides of a comparison. It costs a look at the time per round.
 */
final class RoundClock implements IntConsumer, Serializable {
  private static final long serialVersionUID = 1L;

  private final long[] nanos;
  private int first = -1;
  private int next;

  /** For so many rounds, none of which has begun. */
  RoundClock(int rounds) {
    nanos = new long[rounds + 1];
  }

  /**
   * So many rounds are done now: 0 when the first one begins (more at a restarted rank), then each
   * number once.
   */
  @Override
  public void accept(int rounds) {
    accept(rounds, System.nanoTime());
  }

  void accept(int rounds, long now) {
    if (first < 0) {
      first = next = rounds;
    }
    if (rounds != next || rounds >= nanos.length) {
      throw new IllegalStateException(
          "expected round "
              + next
              + " of "
              + (nanos.length - 1)
              + ", got "
              + rounds
              + ": a rank does each round once");
    }
    nanos[next++] = now;
  }

  /** From the beginning of the first round to the end of the last. */
  double totalMillis() {
    return (all()[nanos.length - 1] - nanos[0]) / 1e6;
  }

  /** Of the round in the middle, by length. */
  double medianRoundMillis() {
    all();
    double[] rounds = new double[nanos.length - 1];
    for (int round = 0; round < rounds.length; round++) {
      rounds[round] = (nanos[round + 1] - nanos[round]) / 1e6;
    }
    Arrays.sort(rounds);
    return rounds[rounds.length / 2];
  }

  private long[] all() {
    if (first != 0 || next != nanos.length) {
      throw new IllegalStateException(
          "expected all of "
              + (nanos.length - 1)
              + " rounds, saw "
              + Math.max(first, 0)
              + " to "
              + Math.max(next - 1, 0));
    }
    return nanos;
  }
}
