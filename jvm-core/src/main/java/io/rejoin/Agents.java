package io.rejoin;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The agents of this JVM, by job and executor, so that they outlive tasks. Those that are over are
 * closed by the watch thread, and when another one is asked for.
 */
public final class Agents {
  private static final Map<List<Object>, ProcessAgent> AGENTS = new HashMap<>();

  private Agents() {}

  /**
   * The agent of this job, executor and kind; started by {@code opener} if there is none, or only
   * one that is over.
   */
  public static <A extends ProcessAgent> A of(
      JobId job, String executor, Class<A> kind, Supplier<A> opener) {
    synchronized (AGENTS) {
      closeThoseThatAreOver();
      List<Object> key = List.of(job, executor, kind);
      ProcessAgent agent = AGENTS.get(key);
      if (agent == null) {
        agent = opener.get();
        AGENTS.put(key, agent);
        Watch.tend();
      }
      return kind.cast(agent);
    }
  }

  /** Closes agents whose job is over; returns how many are left. */
  static int closeThoseThatAreOver() {
    List<ProcessAgent> over = new ArrayList<>();
    int left;
    synchronized (AGENTS) {
      AGENTS.values().removeIf(agent -> agent.over() && over.add(agent));
      left = AGENTS.size();
    }
    over.forEach(ProcessAgent::close);
    return left;
  }
}
