package io.rejoin.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * When the ranks of executors that are to go are moved, and what has to be there before. It knows
 * no Spark, no tracker and no clock: it is told what there is, and returns what is to be done now,
 * each with its reason. For one thread. Times are milliseconds.
 *
 * <p>One rank is moved at a time: the others have the checkpoint that it starts from, and an
 * executor without tasks soon ends, with all that it holds. It is moved when it can be somewhere
 * else at once, and when all have entered a version that was taken after the wish for one: then no
 * round is computed twice but the one that the rank was in. Until then it trains on. Where the
 * world may change, a rank that finds no place for a time leaves it. Should its executor end
 * before, that is a death as any other.
 */
final class Moves {
  /**
   * So long a newer checkpoint is waited for. A function may take none for long, and a rank that
   * moves without one computes no more again than after its executor's death.
   */
  static final long CHECKPOINT_MILLIS = 10_000;

  /**
   * So long is waited until a durable one is written: as long as ranks wait for a slow file system.
   */
  static final long DURABLE_MILLIS = 30_000;

  /** What is to be done. */
  enum Action {
    /** A checkpoint is wanted that is newer than {@link Step#after}. */
    WANT_CHECKPOINT,
    /** The same, and it has to be in the durable folder. */
    WANT_DURABLE,
    /** A spare that stands by on an executor that is to go: its task is killed. */
    LET_GO,
    /** A rank is moved: its task is killed, and is tried again elsewhere, or a spare has it. */
    MOVE,
    /** A rank has no place to go: the world goes on without it from the next version on. */
    LEAVE,
    /** Nothing now. */
    WAIT
  }

  /** One thing to do, and why. */
  static final class Step {
    private final Action action;
    private final Task task;
    private final int after;
    private final String reason;

    private Step(Action action, Task task, int after, String reason) {
      this.action = action;
      this.task = task;
      this.after = after;
      this.reason = reason;
    }

    Action action() {
      return action;
    }

    /** Whose task is killed. */
    Task task() {
      return task;
    }

    /** The newest version that was there. */
    int after() {
      return after;
    }

    String reason() {
      return reason;
    }

    @Override
    public String toString() {
      return action + (task == null ? "" : " " + task) + ": " + reason;
    }
  }

  /** A task that is a member of the gang or stands by. */
  static final class Task {
    private final long number;
    private final int index;
    private final int stage;
    private final int attempt;
    private final int rank;
    private final String executor;

    /**
     * A task.
     *
     * @param number Spark's number of it; negative while Spark hasn't reported it
     * @param index which task of its stage
     * @param stage which attempt of that stage
     * @param attempt which attempt of the task in it
     * @param rank -1 for one that stands by
     */
    Task(long number, int index, int stage, int attempt, int rank, String executor) {
      this.number = number;
      this.index = index;
      this.stage = stage;
      this.attempt = attempt;
      this.rank = rank;
      this.executor = executor;
    }

    long number() {
      return number;
    }

    int index() {
      return index;
    }

    int stage() {
      return stage;
    }

    int attempt() {
      return attempt;
    }

    int rank() {
      return rank;
    }

    String executor() {
      return executor;
    }

    private boolean isSpare() {
      return rank < 0;
    }

    @Override
    public String toString() {
      return (isSpare() ? "the spare" : "rank " + rank) + " on executor " + executor;
    }
  }

  /** What there is at one moment. */
  static final class Situation {
    private final List<Task> tasks;
    private final Map<String, Long> leaving;
    private final int freeSlots;

    /**
     * A moment.
     *
     * @param tasks tasks that run and have a rank or stand by
     * @param leaving executors that are to go, and since when that is known
     * @param freeSlots slots that no task has, of executors that stay
     */
    Situation(List<Task> tasks, Map<String, Long> leaving, int freeSlots) {
      this.tasks = tasks;
      this.leaving = leaving;
      this.freeSlots = freeSlots;
    }

    /** How many executors are to go. */
    int leaves() {
      return leaving.size();
    }

    /** Whether all that train are to go. */
    boolean allLeave() {
      // Without a rank anywhere they are about to join: then nothing is known yet.
      List<Task> ranks = of(task -> !task.isSpare());
      return !ranks.isEmpty() && ranks.stream().allMatch(this::goes);
    }

    private List<Task> of(Predicate<Task> which) {
      return tasks.stream().filter(which).collect(Collectors.toList());
    }

    private boolean goes(Task task) {
      return leaving.containsKey(task.executor);
    }
  }

  private int world;
  private final boolean hasDurable;
  private final long leavesAfter;
  private final Map<Integer, Integer> versions = new TreeMap<>();
  private final Set<String> known = new HashSet<>();
  private final Set<Long> letGo = new HashSet<>();
  private final Set<Long> moved = new HashSet<>();

  /** Tasks that were to leave, and when that was said. */
  private final Map<Long, Long> left = new HashMap<>();

  private int newest;
  private int durable;

  /** The newest version when a checkpoint was wanted last; -1 for no wish. */
  private int after = -1;

  private long wantedAt;
  private boolean wantsDurable;
  private boolean durableFailed;

  /** A rank was moved since, or none could be: the wish is too old for the next one. */
  private boolean isUsed;

  private String waitsFor = "";

  /** Of a job of so many ranks, with a durable folder or without. */
  Moves(int world, boolean hasDurable) {
    this(world, hasDurable, Long.MAX_VALUE);
  }

  /**
   * Of a job that begins with so many ranks.
   *
   * @param leavesAfter so long a place is looked for; then the world goes on without the rank
   */
  Moves(int world, boolean hasDurable, long leavesAfter) {
    this.world = world;
    this.hasDurable = hasDurable;
    this.leavesAfter = leavesAfter;
  }

  /** A rank has entered a version: the checkpoint that begins it is there. */
  void entered(int rank, int version) {
    versions.put(rank, version);
    newest = Math.max(newest, version);
  }

  /** The checkpoint of a version is in the durable folder. */
  void durable(int version) {
    durable = Math.max(durable, version);
  }

  /** A checkpoint could not be written there. */
  void durableFailed() {
    durableFailed = true;
  }

  /** All ranks start again from an older version; numbers begin anew there. */
  void rolledBack(int version) {
    versions.clear();
    newest = version;
    after = -1;
    isUsed = true;
  }

  /** All ranks start again, as so many, from the newest version that is held. */
  void resized(int ranks) {
    world = ranks;
    versions.clear();
    after = -1;
    isUsed = true;
  }

  /** What is to be done now, in this order. A wait is told once, when its reason changes. */
  List<Step> decide(Situation now, long at) {
    if (now.leaving.isEmpty()) {
      return Collections.emptyList();
    }
    List<Step> steps = new ArrayList<>();
    List<Task> going = now.of(task -> !task.isSpare() && now.goes(task));
    Set<String> fresh = new TreeSet<>();
    going.stream().map(Task::executor).filter(known::add).forEach(fresh::add);
    if (!fresh.isEmpty()) {
      // All that train may be gone at once: only what is outside of them stays.
      boolean all = now.allLeave();
      steps.add(
          want(all, at, "executors " + fresh + (all ? ", all that train," : "") + " are to go"));
    }
    List<Task> spares = now.of(task -> task.isSpare() && now.goes(task));
    spares.stream()
        .filter(spare -> spare.number >= 0 && letGo.add(spare.number))
        .forEach(
            spare ->
                steps.add(
                    new Step(
                        Action.LET_GO, spare, 0, "it stands by on an executor that is to go")));
    // One that was killed runs for a moment more.
    going.removeIf(task -> moved.contains(task.number));
    if (!going.isEmpty()) {
      if (replacement(now).isEmpty()) {
        going.stream()
            .filter(task -> task.number >= 0 && at - now.leaving.get(task.executor) >= leavesAfter)
            .filter(task -> left.putIfAbsent(task.number, at) == null)
            .forEach(task -> steps.add(new Step(Action.LEAVE, task, 0, hasNoPlace())));
      }
      // The others go on without one that leaves; its place is not waited for any more. One that
      // still has its rank after as long again can't be spared: it moves where there is a place.
      going.removeIf(task -> at - left.getOrDefault(task.number, at - leavesAfter) < leavesAfter);
      if (!going.isEmpty()) {
        next(going, spares, now, at).ifPresent(steps::add);
      }
    }
    return steps;
  }

  private String hasNoPlace() {
    return "its executor is to go, and in "
        + leavesAfter
        + " ms no spare stood by and no slot was free on an executor that stays";
  }

  /** Whether a rank of this task, by Spark's number, was to leave. */
  boolean hasLeft(long number) {
    return left.containsKey(number);
  }

  private Optional<Step> next(List<Task> going, List<Task> spares, Situation now, long at) {
    going.sort(
        (one, other) -> {
          int bySince =
              Long.compare(now.leaving.get(one.executor), now.leaving.get(other.executor));
          return bySince != 0 ? bySince : Integer.compare(one.rank, other.rank);
        });
    Task task = going.get(0);
    if (there(now) < world) {
      return waits(task, "another rank is missing, and one is moved at a time");
    }
    if (!spares.isEmpty()) {
      return waits(task, "a spare on an executor that is to go might be given the rank");
    }
    String replacement = replacement(now);
    if (replacement.isEmpty()) {
      isUsed = true;
      return waits(
          task, "no spare stands by and no slot is free on an executor that stays; it trains on");
    }
    if (task.number < 0) {
      return waits(task, "Spark has not reported its task yet");
    }
    if (isUsed || after < 0) {
      return Optional.of(want(false, at, task + " is to move"));
    }
    boolean isSafe = !wantsDurable || durable > after || durableFailed;
    if (!isSafe && at - wantedAt < DURABLE_MILLIS) {
      return waits(task, "a checkpoint newer than version " + after + " isn't durable yet");
    }
    int lowest =
        versions.size() < world
            ? 0
            : versions.values().stream().mapToInt(Integer::intValue).min().orElse(0);
    boolean isNew = lowest > after;
    if (!isNew && at - wantedAt < CHECKPOINT_MILLIS) {
      return waits(task, "not all ranks have a checkpoint newer than version " + after);
    }
    isUsed = true;
    waitsFor = "";
    moved.add(task.number);
    String checkpoint =
        isNew
            ? "all ranks are at version " + lowest + " or later, taken after the notice"
            : "no checkpoint newer than version "
                + after
                + " came within "
                + CHECKPOINT_MILLIS
                + " ms";
    return Optional.of(
        new Step(
            Action.MOVE, task, 0, "its executor is to go, " + replacement + ", " + checkpoint));
  }

  /** How many ranks have a task that wasn't killed. */
  private int there(Situation now) {
    return (int)
        now.tasks.stream()
            .filter(one -> !one.isSpare() && !moved.contains(one.number))
            .map(Task::rank)
            .distinct()
            .count();
  }

  /** How many ranks that were moved are not there again. */
  int underWay(Situation now) {
    return Math.min(moved.size(), Math.max(0, world - there(now)));
  }

  /** Where a rank can go at once; empty for nowhere. */
  private static String replacement(Situation now) {
    Optional<Task> spare =
        now.tasks.stream().filter(task -> task.isSpare() && !now.goes(task)).findFirst();
    if (spare.isPresent()) {
      return "a spare stands by on executor " + spare.get().executor;
    }
    return now.freeSlots > 0 ? "a slot is free on an executor that stays" : "";
  }

  private Step want(boolean all, long at, String why) {
    boolean isOutstanding = after >= 0 && !isUsed;
    boolean isRaised = all && hasDurable && !wantsDurable;
    if (!isOutstanding || isRaised) {
      // One that is waited for stays as it is: otherwise each further notice would begin the wait
      // anew.
      after = newest;
      wantedAt = at;
    }
    isUsed = false;
    waitsFor = "";
    if (all && hasDurable) {
      wantsDurable = true;
      durableFailed = false;
    }
    return new Step(
        wantsDurable ? Action.WANT_DURABLE : Action.WANT_CHECKPOINT,
        null,
        after,
        why + ": a checkpoint newer than version " + after + " is wanted");
  }

  private Optional<Step> waits(Task task, String reason) {
    String text = task + ": " + reason;
    if (text.equals(waitsFor)) {
      return Optional.empty();
    }
    waitsFor = text;
    return Optional.of(new Step(Action.WAIT, task, 0, reason));
  }
}
