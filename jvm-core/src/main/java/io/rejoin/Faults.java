package io.rejoin;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Faults on demand, for tests and the demo: which rank meets which fault, and when. They reach an
 * agent only from its tracker, over the authenticated link. No rule waits for a clock.
 */
public final class Faults {
  private final List<String> rules = new ArrayList<>();

  /** No rules: a training without faults. */
  public static Faults none() {
    return new Faults();
  }

  /** The faults of such a text: rules joined by {@code |}. */
  public static Faults parse(String text) {
    Faults faults = new Faults();
    for (String rule : text.split("\\|")) {
      if (!rule.trim().isEmpty()) {
        faults.rules.add(rule.trim());
      }
    }
    return faults;
  }

  /**
   * One more.
   *
   * @param rank which rank meets it
   * @param incarnation which of its incarnations; negative for any
   * @param at joined, boot:bytes, version:v:bytes, restored, replaying or finishing
   * @param action kill, stop, throw, cut:peer, or tell (the moment is reported, and nothing else is
   *     done)
   */
  public Faults and(int rank, int incarnation, String at, String action) {
    rules.add(
        "id="
            + rules.size()
            + ";rank="
            + rank
            + (incarnation < 0 ? "" : ";incarnation=" + incarnation)
            + ";at="
            + at
            + ";do="
            + action);
    return this;
  }

  /**
   * The rules as the native library reads them, one text each, in the order in which they were
   * added.
   */
  public List<String> rules() {
    return Collections.unmodifiableList(rules);
  }

  /** Whether there is none. */
  public boolean isEmpty() {
    return rules.isEmpty();
  }

  @Override
  public String toString() {
    return String.join("|", rules);
  }
}
