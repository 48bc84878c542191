package io.rejoin.spark;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * The driver's record of one gang: hosts, executors and the newest attempt of each rank's task,
 * with their addresses, their state, since when and why. It knows no Spark, no tracker and no
 * clock: it is told what they report, in any order, and returns one line for each change of a
 * state. Times are milliseconds since 1970. Safe to use from several threads.
 */
final class Registry {
  /** Executors that are gone are remembered, the newest so many of them. */
  static final int GONE_KEPT = 1_000;

  /** What an executor or a rank's task is in. */
  enum State {
    /** Spark has reported the executor. */
    PRESENT,
    /** An agent of the executor has registered with the tracker. */
    REGISTERED,
    /** Spark gives the executor no tasks of this gang. */
    EXCLUDED,
    /** The executor's process has ended, or was taken away. */
    GONE,
    /** The task was started. */
    STARTED,
    /** The task is a member of the gang. */
    JOINED,
    /** The tracker has declared the rank lost; Spark may not know yet. */
    LOST,
    /** The task has failed or was killed; another attempt follows, unless the job ends. */
    FAILED,
    /** The task has ended well. */
    FINISHED;

    private String word() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** What is to be done about a rank that was lost while its process may live. */
  enum Action {
    /** Nothing. */
    NONE,
    /** The task is killed as soon as it is known. */
    WAIT,
    /** The task is killed. */
    KILL_TASK,
    /** The executor is killed and replaced. */
    KILL_EXECUTOR
  }

  /** An action and why. */
  static final class Decision {
    private final Action action;
    private final String reason;
    private final long task;

    private Decision(Action action, String reason, long task) {
      this.action = action;
      this.reason = reason;
      this.task = task;
    }

    Action action() {
      return action;
    }

    String reason() {
      return reason;
    }

    /** Spark's number of the task to kill. */
    long task() {
      return task;
    }
  }

  /** The state of one thing. */
  private static final class Entry {
    private final String name;
    private State state;
    private long since;
    private String why;

    /** The host of an executor, the executor of a task. */
    private String place = "";

    /** An attempt's order among those of its rank; none yet. */
    private long order = -1;

    private long number = -1;

    private Entry(String name) {
      this.name = name;
    }

    /** Nothing comes after this. */
    private boolean isOver() {
      return state == State.GONE || state == State.FAILED || state == State.FINISHED;
    }

    private Entry at(String where) {
      place = where;
      return this;
    }

    /** A line, if anything has changed. */
    private Optional<String> change(State next, String reason, long at) {
      if (isOver() || (state == next && Objects.equals(why, reason))) {
        return Optional.empty();
      }
      String before = state == null ? "" : state.word() + " for " + (at - since) + " ms, now ";
      boolean isSame = state == next;
      state = next;
      why = reason;
      since = isSame ? since : at;
      return Optional.of(name + ": " + before + next.word() + ": " + reason);
    }
  }

  private final Map<String, Entry> executors = new TreeMap<>();
  private final Map<String, Integer> hosts = new HashMap<>();
  private final Map<String, String> excludedHosts = new TreeMap<>();
  private final Deque<String> gone = new ArrayDeque<>();
  private final Map<Integer, Entry> tasks = new TreeMap<>();
  private final Map<Integer, Integer> failures = new HashMap<>();
  private final Map<String, String> killsWanted = new HashMap<>();
  private String lastFailure = "";

  /** An executor is there. */
  synchronized Optional<String> executorAdded(String executor, String host, long at) {
    Entry entry = executor(executor);
    if (entry.place.isEmpty() && entry.state != State.GONE) {
      entry.place = host;
      hosts.merge(host, 1, Integer::sum);
    }
    // What an agent or an exclusion has told is newer, and one that is gone never comes back.
    return entry.state == null
        ? entry.change(State.PRESENT, "on host " + host, at)
        : Optional.empty();
  }

  /** An executor is gone. */
  synchronized Optional<String> executorGone(String executor, String why, long at) {
    Entry entry = executor(executor);
    if (entry.state == State.GONE) {
      return Optional.empty();
    }
    hosts.computeIfPresent(entry.place, (host, count) -> count == 1 ? null : count - 1);
    gone.addLast(executor);
    if (gone.size() > GONE_KEPT) {
      executors.remove(gone.removeFirst());
    }
    return entry.change(State.GONE, why, at);
  }

  /** Spark gives an executor no tasks any more. */
  synchronized Optional<String> executorExcluded(String executor, String why, long at) {
    return executor(executor).change(State.EXCLUDED, why, at);
  }

  /** Spark gives it tasks again. */
  synchronized Optional<String> executorReadmitted(String executor, long at) {
    Entry entry = executor(executor);
    return entry.state == State.EXCLUDED
        ? entry.change(State.PRESENT, "its exclusion has ended", at)
        : Optional.empty();
  }

  /** Spark gives a host's executors no tasks any more. */
  synchronized Optional<String> hostExcluded(String host, String why) {
    return why.equals(excludedHosts.put(host, why))
        ? Optional.empty()
        : Optional.of("host " + host + ": now excluded: " + why);
  }

  /** Spark gives them tasks again. */
  synchronized Optional<String> hostReadmitted(String host) {
    return excludedHosts.remove(host) == null
        ? Optional.empty()
        : Optional.of("host " + host + ": its exclusion has ended");
  }

  /** An executor's agent is registered with the tracker. */
  synchronized Optional<String> agentJoined(String executor, String agent, long at) {
    Entry entry = executor(executor);
    return entry.state == State.EXCLUDED
        ? Optional.empty()
        : entry.change(State.REGISTERED, "its agent is " + agent, at);
  }

  /** An executor's agent is lost to the tracker; Spark says whether its process is. */
  synchronized Optional<String> agentLost(String executor, String why, long at) {
    Entry entry = executor(executor);
    return entry.state == State.REGISTERED
        ? entry.change(State.PRESENT, "its agent is lost: " + why, at)
        : Optional.empty();
  }

  /** Spark has started an attempt of a rank's task. */
  synchronized Optional<String> taskStarted(
      int rank, int stage, int attempt, long number, String executor, long at) {
    Entry entry = task(rank, stage, attempt);
    if (entry.number < 0) {
      entry.number = number;
    }
    // The tracker's word of it may have come first.
    return entry.state == null
        ? entry.at(executor).change(State.STARTED, "on executor " + executor, at)
        : Optional.empty();
  }

  /** The attempt is a member of the gang. */
  synchronized Optional<String> taskJoined(
      int rank, int stage, int attempt, String executor, long at) {
    Entry entry = task(rank, stage, attempt);
    return entry.state == null || entry.state == State.STARTED
        ? entry.at(executor).change(State.JOINED, "on executor " + executor, at)
        : Optional.empty();
  }

  /** The tracker has declared a rank's newest attempt lost. */
  synchronized Optional<String> rankLost(int rank, String executor, String why, long at) {
    Entry entry = tasks.get(rank);
    boolean isIt = entry != null && entry.place.equals(executor) && entry.state == State.JOINED;
    return isIt ? entry.change(State.LOST, why, at) : Optional.empty();
  }

  /** An attempt has ended well. */
  synchronized Optional<String> taskFinished(int rank, int stage, int attempt, long at) {
    return task(rank, stage, attempt).change(State.FINISHED, "its task has ended well", at);
  }

  /**
   * An attempt has failed or was killed.
   *
   * @param counts whether that counts against Spark's number of retries
   */
  synchronized Optional<String> taskFailed(
      int rank, int stage, int attempt, String why, boolean counts, long at) {
    if (counts) {
      failures.merge(rank, 1, Integer::sum);
      lastFailure = name(rank, stage, attempt) + ": " + why;
    }
    return task(rank, stage, attempt).change(State.FAILED, why, at);
  }

  /** The most failures of any one rank that count against Spark's limit. */
  synchronized int mostFailuresOfOneRank() {
    return failures.values().stream().mapToInt(Integer::intValue).max().orElse(0);
  }

  /** What the last task failed with that counts; empty if none did. */
  synchronized String lastFailure() {
    return lastFailure;
  }

  /** What is to be done about a lost attempt whose executor, which can't be killed, may live. */
  synchronized Decision killTask(int rank, int stage, int attempt, String why) {
    String name = name(rank, stage, attempt);
    Entry entry = task(rank, stage, attempt);
    if (entry.isOver()) {
      return new Decision(Action.NONE, name + " has ended: " + entry.why, -1);
    }
    if (entry.number < 0) {
      killsWanted.put(name, why);
      return new Decision(Action.WAIT, "Spark has not reported " + name + " yet", -1);
    }
    return new Decision(Action.KILL_TASK, why, entry.number);
  }

  /** Whether an attempt that has just started was to be killed, and why. */
  synchronized Optional<String> killWanted(int rank, int stage, int attempt) {
    return Optional.ofNullable(killsWanted.get(name(rank, stage, attempt)));
  }

  /** What is to be done about an executor whose rank was lost, and which may be frozen. */
  synchronized Decision killExecutor(String executor, String why) {
    Entry entry = executors.get(executor);
    if (entry != null && entry.state == State.GONE) {
      return new Decision(Action.NONE, "executor " + executor + " is gone: " + entry.why, -1);
    }
    String others =
        tasks.values().stream()
            .filter(task -> task.place.equals(executor) && task.state == State.JOINED)
            .map(task -> task.name)
            .collect(Collectors.joining(", "));
    return new Decision(
        Action.KILL_EXECUTOR, why + (others.isEmpty() ? "" : "; with it go " + others), -1);
  }

  /** How many executors are there, on how many hosts, and which are excluded, why. */
  synchronized String summary() {
    return String.format(
        Locale.ROOT,
        "%d executors on %d hosts; excluded executors: %s; excluded hosts: %s",
        executors.values().stream().filter(one -> one.state != State.GONE).count(),
        hosts.size(),
        named(one -> one.state == State.EXCLUDED),
        excludedHosts.isEmpty() ? "none" : excludedHosts);
  }

  /** The state of an executor; empty for one that nothing is known of. */
  synchronized Optional<State> executorState(String executor) {
    return Optional.ofNullable(executors.get(executor)).map(entry -> entry.state);
  }

  /** The state of the newest attempt of a rank's task. */
  synchronized Optional<State> taskState(int rank) {
    return Optional.ofNullable(tasks.get(rank)).map(entry -> entry.state);
  }

  private String named(Predicate<Entry> which) {
    String names =
        executors.values().stream()
            .filter(which)
            .map(one -> one.name + " (" + one.why + ")")
            .collect(Collectors.joining(", "));
    return names.isEmpty() ? "none" : names;
  }

  private Entry executor(String executor) {
    return executors.computeIfAbsent(executor, name -> new Entry("executor " + name));
  }

  /**
   * The entry of this attempt, which is the newest one of its rank from now on; of an older one an
   * entry that is forgotten, since it was followed by another one.
   */
  private Entry task(int rank, int stage, int attempt) {
    long order = ((long) stage << Integer.SIZE) + attempt;
    Entry newest = tasks.get(rank);
    if (newest != null && newest.order == order) {
      return newest;
    }
    Entry entry = new Entry(name(rank, stage, attempt));
    entry.order = order;
    if (newest == null || newest.order < order) {
      tasks.put(rank, entry);
    } else {
      entry.state = State.FAILED;
      entry.why = "it was followed by " + newest.name;
    }
    return entry;
  }

  private static String name(int rank, int stage, int attempt) {
    return "rank " + rank + ", attempt " + stage + "." + attempt;
  }
}
