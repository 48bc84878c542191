package io.rejoin;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalInt;

/**
 * The world of an elastic job that made the version which a rank starts from, where that is another
 * one than it is in. Ranks are numbered as they were then.
 */
public final class Former {
  private final int rank;
  private final int world;
  private final List<Integer> given;

  /** Of what {@link Native#communicatorFormer} gives. */
  Former(int[] numbers) {
    this.rank = numbers[0];
    this.world = numbers[1];
    List<Integer> given = new ArrayList<>();
    for (int index = 2; index < numbers.length; index++) {
      given.add(numbers[index]);
    }
    this.given = Collections.unmodifiableList(given);
  }

  /** Which rank this one was; empty: it wasn't there. */
  public OptionalInt rank() {
    return rank < 0 ? OptionalInt.empty() : OptionalInt.of(rank);
  }

  /** The number of ranks. */
  public int world() {
    return world;
  }

  /**
   * The ranks that are gone and whose own models this rank is given ({@link
   * Communicator#loadOwnOf}), in order. Each is given to one rank that was there. Empty where ranks
   * have no own models.
   */
  public List<Integer> given() {
    return given;
  }

  @Override
  public String toString() {
    String was = rank < 0 ? "none" : "rank " + rank;
    return was + " of " + world + " ranks, given those of " + given;
  }
}
