package io.rejoin;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The agents of this JVM, by job and executor, so that they outlive tasks. Those that are over are
 * closed by the watch thread, and when another one is asked for.
 */
public final class Agents {
  private static final Map<Key, Agent> AGENTS = new HashMap<>();

  private Agents() {}

  /** The agent of this job and executor; started if there is none, or only one that is over. */
  public static Agent of(JobId job, String executor, Secret secret, Agent.Settings settings) {
    synchronized (AGENTS) {
      closeThoseThatAreOver();
      Key key = new Key(job, executor);
      Agent agent = AGENTS.get(key);
      if (agent == null) {
        agent = Agent.open(job, secret, settings);
        AGENTS.put(key, agent);
        Watch.tend();
      }
      return agent;
    }
  }

  /** Closes agents whose job is over; returns how many are left. */
  static int closeThoseThatAreOver() {
    List<Agent> over = new ArrayList<>();
    int left;
    synchronized (AGENTS) {
      AGENTS.values().removeIf(agent -> agent.over() && over.add(agent));
      left = AGENTS.size();
    }
    over.forEach(Agent::close);
    return left;
  }

  private static final class Key {
    private final JobId job;
    private final String executor;

    Key(JobId job, String executor) {
      this.job = job;
      this.executor = executor;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Key
          && ((Key) other).job.equals(job)
          && ((Key) other).executor.equals(executor);
    }

    @Override
    public int hashCode() {
      return Objects.hash(job, executor);
    }
  }
}
