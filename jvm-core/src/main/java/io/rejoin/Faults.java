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
        faults.and(rule);
      }
    }
    return faults;
  }

  /**
   * One more, as {@code rejoin run --help} says how to write it: {@code
   * rank=1,version=5,seqno=2,do=kill}, {@code rank=1,incarnation=any,at=join,do=cut:0}. What only
   * {@code rejoin run} can do (wake a process, end a tracker) is refused when the tracker opens; so
   * is a rule that can't be read.
   */
  public Faults and(String rule) {
    rules.add(rule.trim());
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
