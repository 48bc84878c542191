package io.rejoin.it.bench;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.concurrent.Callable;

/** Ours and a peer, made in turn. */
public final class Pairs {
  /** What came of both. */
  public record Pair<T>(T ours, T theirs) implements Serializable {}

  private Pairs() {}

  /** So many, which side begins changing, and one more before them that warms the JVMs up. */
  public static <T> ArrayList<Pair<T>> of(int count, Callable<T> ours, Callable<T> theirs)
      throws Exception {
    ArrayList<Pair<T>> pairs = new ArrayList<>();
    for (int pair = -1; pair < count; pair++) {
      boolean oursFirst = pair % 2 == 0;
      T first = (oursFirst ? ours : theirs).call();
      T second = (oursFirst ? theirs : ours).call();
      if (pair >= 0) {
        pairs.add(oursFirst ? new Pair<>(first, second) : new Pair<>(second, first));
      }
    }
    return pairs;
  }
}
