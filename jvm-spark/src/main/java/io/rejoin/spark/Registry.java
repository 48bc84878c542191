package io.rejoin.spark;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * The driver's record of one gang: hosts, executors and the newest attempt of each task, with their
 * addresses, their ranks, their state, since when and why. It knows no Spark, no tracker and no
 * clock: it is told what they report, in any order, and returns one line for each change of a
 * state. Times are milliseconds since 1970. Safe to use from several threads.
 */
final class Registry {
  /** Executors that are gone are remembered, the newest so many of them. */
  static final int GONE_KEPT = 1_000;

  /** What an executor or a task is in. */
  enum State {
    /** Spark has reported the executor. */
    PRESENT,
    /** An agent of the executor has registered with the tracker. */
    REGISTERED,
    /** Its agent answers, but the executor's own threads don't run: a collection of garbage. */
    SLOW,
    /** Spark gives the executor no tasks of this gang. */
    EXCLUDED,
    /** The executor was told of its end: Spark gives it no tasks any more. */
    LEAVING,
    /** The executor's process has ended, or was taken away. */
    GONE,
    /** The task was started. */
    STARTED,
    /** The task is a spare: it takes part without a rank. */
    STANDING_BY,
    /** The task is a member of the gang, and has a rank. */
    JOINED,
    /** The tracker has declared the rank lost; Spark may not know yet. */
    LOST,
    /** The task has failed or was killed; another attempt follows, unless the job ends. */
    FAILED,
    /** The task has ended well. */
    FINISHED;

    private String word() {
      return name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
  }

  /** What is to be done about a task that was lost while its process may live. */
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

    /** An attempt's order among those of its task; none yet. */
    private long order = -1;

    /** The rank that a task has, or had last; none yet. */
    private int rank = -1;

    private long number = -1;

    /** When the last heartbeat of an executor came to Spark; none yet. */
    private long heard = -1;

    private Entry(String name) {
      this.name = name;
    }

    /** Nothing comes after this. */
    private boolean isOver() {
      return state == State.GONE || state == State.FAILED || state == State.FINISHED;
    }

    /**
     * Of an executor of which Spark has told; a late report of one that is forgotten isn't that.
     */
    private boolean isThere() {
      return state != State.GONE && !place.isEmpty();
    }

    /** Of a task. */
    private boolean runs() {
      return state == State.STARTED || state == State.STANDING_BY || state == State.JOINED;
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

  /** Of those that are to go, whose tasks need another place. */
  private final Set<String> missed = new TreeSet<>();

  private final Map<String, Integer> hosts = new HashMap<>();
  private final Map<String, String> excludedHosts = new TreeMap<>();
  private final Deque<String> gone = new ArrayDeque<>();
  private final Map<Integer, Entry> tasks = new TreeMap<>();
  private final Map<Integer, Integer> failures = new HashMap<>();
  private final Map<Integer, Integer> deaths = new HashMap<>();
  private final Map<String, String> killsWanted = new HashMap<>();
  private String lastFailure = "";
  private int newestStage;

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

  /** Spark has had a heartbeat of an executor. */
  synchronized void executorHeard(String executor, long at) {
    Entry entry = executors.get(executor);
    if (entry != null) {
      entry.heard = at;
    }
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
    Entry entry = executor(executor);
    return entry.state == State.LEAVING ? Optional.empty() : entry.change(State.EXCLUDED, why, at);
  }

  /** An executor was told of its end in time. */
  synchronized Optional<String> executorLeaves(String executor, String why, long at) {
    Entry entry = executor(executor);
    return entry.state == State.LEAVING ? Optional.empty() : entry.change(State.LEAVING, why, at);
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
    return entry.state == State.EXCLUDED || entry.state == State.LEAVING
        ? Optional.empty()
        : entry.change(State.REGISTERED, "its agent is " + agent, at);
  }

  /** An executor's agent answers, but nothing else in its process. */
  synchronized Optional<String> agentSlow(String executor, String why, long at) {
    Entry entry = executor(executor);
    return entry.state == State.REGISTERED ? entry.change(State.SLOW, why, at) : Optional.empty();
  }

  /** An executor that was slow runs again. */
  synchronized Optional<String> agentRuns(String executor, String why, long at) {
    Entry entry = executor(executor);
    return entry.state == State.SLOW ? entry.change(State.REGISTERED, why, at) : Optional.empty();
  }

  /** An executor's agent is lost to the tracker; Spark says whether its process is. */
  synchronized Optional<String> agentLost(String executor, String why, long at) {
    Entry entry = executor(executor);
    return entry.state == State.REGISTERED || entry.state == State.SLOW
        ? entry.change(State.PRESENT, "its agent is lost: " + why, at)
        : Optional.empty();
  }

  /** Spark has started an attempt of a task. */
  synchronized Optional<String> taskStarted(
      int index, int stage, int attempt, long number, String executor, long at) {
    Entry entry = task(index, stage, attempt);
    if (entry.number < 0) {
      entry.number = number;
    }
    // The tracker's word of it may have come first.
    return entry.state == null
        ? entry.at(executor).change(State.STARTED, "on executor " + executor, at)
        : Optional.empty();
  }

  /** The attempt takes part without a rank, as a spare. */
  synchronized Optional<String> taskStandsBy(
      int index, int stage, int attempt, String executor, long at) {
    Entry entry = task(index, stage, attempt);
    return entry.state == null || entry.state == State.STARTED
        ? entry.at(executor).change(State.STANDING_BY, "on executor " + executor, at)
        : Optional.empty();
  }

  /** The attempt is a member of the gang, as this rank. */
  synchronized Optional<String> taskJoined(
      int index, int stage, int attempt, int rank, String executor, long at) {
    Entry entry = task(index, stage, attempt);
    if (entry.state != null && entry.state != State.STARTED && entry.state != State.STANDING_BY) {
      return Optional.empty();
    }
    entry.rank = rank;
    return entry
        .at(executor)
        .change(State.JOINED, "as rank " + rank + " on executor " + executor, at);
  }

  /**
   * All tasks that have a rank join again, as other ranks of another world.
   *
   * @param next for each rank of the world before the one that it is now; -1 for those that are
   *     gone
   */
  synchronized void worldChanged(int[] next) {
    Map<Integer, Integer> before = new HashMap<>(deaths);
    deaths.clear();
    before.forEach(
        (rank, count) -> {
          if (rank < next.length && next[rank] >= 0) {
            deaths.put(next[rank], count);
          }
        });
    for (Entry one : tasks.values()) {
      if (one.state == State.JOINED) {
        one.state = State.STARTED;
        one.rank = -1;
      } else if (one.rank >= 0) {
        // What Spark says of it later is about the rank that it was.
        one.rank = one.rank < next.length ? next[one.rank] : -1;
      }
    }
  }

  /** The tracker has declared a rank lost. */
  synchronized Optional<String> rankLost(int rank, String executor, String why, long at) {
    return tasks.values().stream()
        .filter(one -> one.rank == rank && one.state == State.JOINED && one.place.equals(executor))
        .findFirst()
        .flatMap(one -> one.change(State.LOST, why, at));
  }

  /** An attempt has ended well. */
  synchronized Optional<String> taskFinished(int index, int stage, int attempt, long at) {
    return task(index, stage, attempt).change(State.FINISHED, "its task has ended well", at);
  }

  /**
   * An attempt has failed or was killed.
   *
   * @param counts whether that counts against Spark's number of retries
   */
  synchronized Optional<String> taskFailed(
      int index, int stage, int attempt, String why, boolean counts, long at) {
    Entry entry = task(index, stage, attempt);
    // Spark counts those of the newest attempt of the stage alone; of an older one's tasks it only
    // says
    // that they ended.
    if (counts && stage == newestStage) {
      failures.merge(index, 1, Integer::sum);
      lastFailure = entry.name + ": " + why;
      if (entry.rank >= 0) {
        deaths.merge(entry.rank, 1, Integer::sum);
      }
    }
    return entry.change(State.FAILED, why, at);
  }

  /** The rank of a task's newest attempt, if it is this one and has one; -1 otherwise. */
  synchronized int rankOf(int index, int stage, int attempt) {
    return task(index, stage, attempt).rank;
  }

  /** How often a rank has died so that it counts against Spark's limit. */
  synchronized int deathsOfRank(int rank) {
    return deaths.getOrDefault(rank, 0);
  }

  /** How often a task has failed so that it counts against Spark's limit, as a rank or without. */
  synchronized int failuresOfTask(int index) {
    return failures.getOrDefault(index, 0);
  }

  /** The most failures of any one task that count against Spark's limit. */
  synchronized int mostFailuresOfOneTask() {
    return failures.values().stream().mapToInt(Integer::intValue).max().orElse(0);
  }

  /** How many tasks run, of those that aren't lost. */
  synchronized int tasksThatRun() {
    return (int) tasks.values().stream().filter(Entry::runs).count();
  }

  /** What the last task failed with that counts; empty if none did. */
  synchronized String lastFailure() {
    return lastFailure;
  }

  /** What is to be done about a lost attempt whose executor, which can't be killed, may live. */
  synchronized Decision killTask(int index, int stage, int attempt, String why) {
    String name = name(index, stage, attempt);
    Entry entry = task(index, stage, attempt);
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
  synchronized Optional<String> killWanted(int index, int stage, int attempt) {
    return Optional.ofNullable(killsWanted.get(name(index, stage, attempt)));
  }

  /** What is to be done about an executor whose task was lost, and which may be frozen. */
  synchronized Decision killExecutor(String executor, String why, long at) {
    Entry entry = executors.get(executor);
    if (entry != null && entry.state == State.GONE) {
      return new Decision(Action.NONE, "executor " + executor + " is gone: " + entry.why, -1);
    }
    String others =
        tasks.values().stream()
            .filter(task -> task.place.equals(executor) && task.state == State.JOINED)
            .map(task -> "rank " + task.rank + " (" + task.name + ")")
            .collect(Collectors.joining(", "));
    String heard =
        entry == null || entry.heard < 0
            ? ""
            : "; its last heartbeat came to Spark " + (at - entry.heard) + " ms ago";
    return new Decision(
        Action.KILL_EXECUTOR, why + heard + (others.isEmpty() ? "" : "; with it go " + others), -1);
  }

  /** Executors that are there and that Spark gives tasks of this gang. */
  synchronized List<String> executorsThatStay() {
    return executorNames(
        entry ->
            entry.isThere()
                && entry.state != State.EXCLUDED
                && entry.state != State.LEAVING
                && !excludedHosts.containsKey(entry.place));
  }

  /** Executors that aren't known to go. */
  synchronized List<String> executorsWithoutNotice() {
    return executorNames(entry -> entry.isThere() && entry.state != State.LEAVING);
  }

  /**
   * Executors that are to go and ran a task of the gang when that was known. One that ran none is
   * not missed: Spark's own allocation lets those go that are idle.
   */
  synchronized Set<String> executorsToReplace() {
    List<String> leaving = executorNames(entry -> entry.state == State.LEAVING);
    missed.retainAll(leaving);
    // A rank that has moved on took the place of one that comes.
    leaving.stream().filter(name -> tasksOn(name) > 0).forEach(missed::add);
    return Set.copyOf(missed);
  }

  private List<String> executorNames(Predicate<Entry> which) {
    return executors.entrySet().stream()
        .filter(one -> which.test(one.getValue()))
        .map(Map.Entry::getKey)
        .collect(Collectors.toList());
  }

  /** How many tasks of the gang an executor runs. */
  synchronized int tasksOn(String executor) {
    return (int)
        tasks.values().stream().filter(one -> one.runs() && one.place.equals(executor)).count();
  }

  /** What {@link Moves} has to know: who is where, and which executors are to go. */
  synchronized Moves.Situation situation(int freeSlots) {
    Map<String, Long> leaving = new TreeMap<>();
    executors.forEach(
        (name, entry) -> {
          if (entry.state == State.LEAVING) {
            leaving.put(name, entry.since);
          }
        });
    List<Moves.Task> placed =
        tasks.entrySet().stream()
            .filter(one -> takesPart(one.getValue()))
            .map(one -> placed(one.getKey(), one.getValue()))
            .collect(Collectors.toList());
    return new Moves.Situation(placed, leaving, freeSlots);
  }

  private static boolean takesPart(Entry task) {
    return task.state == State.JOINED || task.state == State.STANDING_BY;
  }

  private static Moves.Task placed(int index, Entry task) {
    int rank = task.state == State.JOINED ? task.rank : -1;
    int stage = (int) (task.order >> Integer.SIZE);
    return new Moves.Task(task.number, index, stage, (int) task.order, rank, task.place);
  }

  /**
   * Spark's number of an attempt; negative if Spark hasn't reported it, or a later one is there.
   */
  synchronized long numberOf(int index, int stage, int attempt) {
    Entry task = tasks.get(index);
    return task == null || task.order != order(stage, attempt) ? -1 : task.number;
  }

  /** How many executors are there, on how many hosts, and which are excluded, why. */
  synchronized String summary() {
    return String.format(
        Locale.ROOT,
        "%d executors on %d hosts; excluded executors: %s; excluded hosts: %s",
        executors.values().stream().filter(Entry::isThere).count(),
        hosts.size(),
        named(one -> one.state == State.EXCLUDED),
        excludedHosts.isEmpty() ? "none" : excludedHosts);
  }

  /** The state of an executor; empty for one that nothing is known of. */
  synchronized Optional<State> executorState(String executor) {
    return Optional.ofNullable(executors.get(executor)).map(entry -> entry.state);
  }

  /** The state of the newest attempt of a task. */
  synchronized Optional<State> taskState(int index) {
    return Optional.ofNullable(tasks.get(index)).map(entry -> entry.state);
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
   * The entry of this attempt, which is the newest one of its task from now on; of an older one an
   * entry that is forgotten, since it was followed by another one.
   */
  private Entry task(int index, int stage, int attempt) {
    long order = order(stage, attempt);
    if (stage > newestStage) {
      newestStage = stage;
      failures.clear();
    }
    Entry newest = tasks.get(index);
    if (newest != null && newest.order == order) {
      return newest;
    }
    Entry entry = new Entry(name(index, stage, attempt));
    entry.order = order;
    if (newest == null || newest.order < order) {
      tasks.put(index, entry);
    } else {
      entry.state = State.FAILED;
      entry.why = "it was followed by " + newest.name;
    }
    return entry;
  }

  private static long order(int stage, int attempt) {
    return ((long) stage << Integer.SIZE) + attempt;
  }

  private static String name(int index, int stage, int attempt) {
    return "task " + index + ", attempt " + stage + "." + attempt;
  }
}
