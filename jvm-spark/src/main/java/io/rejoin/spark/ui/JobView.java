package io.rejoin.spark.ui;

import io.rejoin.JobTotals;
import io.rejoin.TrainingEvent;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * What the tab shows of one job, made of its events alone: by those of a job that runs, and by
 * those in Spark's event log. Knows no Spark and no clock; times are milliseconds since 1970. Not
 * for several threads at once.
 */
final class JobView {
  /** The first event of a job, which the driver makes; its fields are those of {@link #fact}. */
  static final String BEGAN = "JobBegan";

  /** Where all ranks are, and what is held, at one moment: {@link ProgressEvent}. */
  static final String PROGRESS = "Progress";

  /** A job that has ended without the tracker's word: its fit was interrupted. */
  static final String ABANDONED = "JobAbandoned";

  private static final int MOST_NOTES = 100;
  private static final int MOST_POINTS = 600;

  /** How far the job was at a moment. */
  static final class Point {
    private final long at;
    private final long done;

    private Point(long at, long done) {
      this.at = at;
      this.done = done;
    }

    long at() {
      return at;
    }

    /** Rounds, or versions where it has no rounds. */
    long done() {
      return done;
    }
  }

  private final String job;
  private final long began;
  private final Map<String, String> facts;
  private final Map<Integer, RankView> ranks = new TreeMap<>();

  /** By the last change of the world; -1 before one. */
  private int resizedTo = -1;

  private final Map<String, String> hosts = new HashMap<>();

  /** Of agents. */
  private final Map<String, String> executors = new HashMap<>();

  private final List<Recovery> recoveries = new ArrayList<>();
  private final Map<Integer, Recovery> open = new HashMap<>();
  private final Map<Long, String> notes = new LinkedHashMap<>();
  private final Memory memory = new Memory();
  private final JobTotals totals = new JobTotals();
  private List<Point> points = new ArrayList<>();
  private String transport = "";
  private long trainsSince;
  private long newest;
  private TrainingEvent end;

  /** A job that begins with this event, a {@link #BEGAN}. */
  JobView(String job, TrainingEvent first) {
    this.job = job;
    this.began = millis(first);
    this.newest = began;
    this.facts = first.fields();
    for (int rank = 0; rank < number("ranks"); rank++) {
      ranks.put(rank, new RankView(rank, began));
    }
  }

  /** When an event was. */
  static long millis(TrainingEvent event) {
    return TimeUnit.NANOSECONDS.toMillis(event.atNanos());
  }

  /**
   * Takes the next event; returns whether it has changed what the job is doing, beyond how far it
   * is.
   */
  boolean accept(TrainingEvent event) {
    long at = millis(event);
    newest = Math.max(newest, at);
    if (event.name().equals(PROGRESS)) {
      new ProgressEvent(event).applyTo(this);
      return false;
    }
    if (event.name().equals(ABANDONED)) {
      over(event);
      return true;
    }
    int deaths = totals.deaths();
    totals.accept(event);
    switch (event.kind()) {
      case AGENT_JOINED:
        hosts.put(event.text("executor"), event.text("host"));
        executors.put(event.text("agent"), event.text("executor"));
        return true;
      case RANK_JOINED:
        joined(event, at);
        return true;
      case RANK_LOST:
        lost(event, at, totals.deaths() == deaths);
        return true;
      case RESTORED:
        rank(event).enter(RankState.LOADING, at);
        recovery(event)
            .ifPresent(one -> one.restored(event.text("source"), event.number("bytes"), at));
        return true;
      case VERSION_ENTERED:
        return entered(event, at);
      case CAUGHT_UP:
        works(rank(event), event.number("rounds_again"), event.number("replayed_in"), at);
        return true;
      case RANK_FINISHED:
        works(rank(event), 0, 0, at);
        rank(event).enter(RankState.FINISHED, at);
        return true;
      case AGENT_SLOW:
        note(
            at,
            event.sentence("executor {executor} is slow: nothing has run for {silent_millis} ms"));
        return true;
      case AGENT_RUNS:
        note(at, event.sentence("executor {executor} runs again after {silent_millis} ms"));
        return true;
      case EXECUTOR_LEAVES:
        note(at, event.sentence("executor {executor} is to go: {reason}"));
        return true;
      case RANK_MOVED:
        note(at, event.sentence("rank {rank} is moved off executor {executor}: {reason}"));
        return true;
      case ROLLED_BACK:
        note(at, event.sentence("all ranks go back to version {version}: {reason}"));
        return true;
      case RESIZED:
        resized((int) event.number("world"), at);
        note(at, event.sentence("there are {world} ranks from now on: {reason}"));
        return true;
      case SPARE_TOOK:
        note(at, event.sentence("a spare on executor {executor} takes rank {rank}: {reason}"));
        return true;
      case DURABLE_FAILED:
        note(at, event.sentence("version {version} isn't durable: {reason}"));
        return true;
      case HOOK_AGREED:
        transport =
            event.sentence(
                (Boolean.parseBoolean(event.text("hooked"))
                        ? "served by Rejoin's own"
                        : "carried by the bridge")
                    + " ({reason})");
        return true;
      case AGENT_LOST:
        memory.lost(event.text("agent"));
        return false;
      case USAGE:
        memory.take(event);
        seen(executors.getOrDefault(event.text("agent"), ""), at);
        return false;
      case JOB_ENDED:
      case JOB_FAILED:
        over(event);
        return true;
      default:
        return false;
    }
  }

  /** How many ranks there are to be. */
  long world() {
    return resizedTo < 0 ? number("ranks") : resizedTo;
  }

  /** All join again, as other ranks. */
  private void resized(int world, long at) {
    open.values().forEach(one -> one.cut(at));
    open.clear();
    ranks.clear();
    resizedTo = world;
    for (int rank = 0; rank < world; rank++) {
      ranks.put(rank, new RankView(rank, at));
    }
  }

  private void joined(TrainingEvent event, long at) {
    RankView rank = rank(event);
    int incarnation = (int) event.number("incarnation");
    rank.joined(incarnation, event.text("executor"), at);
    recovery(event).ifPresent(one -> one.joined(event.text("executor"), at));
  }

  private void lost(TrainingEvent event, long at, boolean moved) {
    RankView rank = rank(event);
    long died = at - event.number("silent_millis");
    recovery(event).ifPresent(one -> one.cut(died));
    rank.lost(died, (int) event.number("deaths"));
    Recovery recovery =
        new Recovery(
            rank.rank(),
            moved ? "moved" : String.valueOf(rank.deaths()),
            event.text("executor"),
            event.text("reason"),
            died,
            at);
    recoveries.add(recovery);
    open.put(rank.rank(), recovery);
  }

  /** A rank has entered a version; returns whether that changed its state. */
  private boolean entered(TrainingEvent event, long at) {
    RankView rank = rank(event);
    RankState before = rank.state();
    rank.reached(event.number("lineage"), event.number("version"), event.number("round"), at);
    if (before != RankState.TRAINING && before != RankState.REPLAYING) {
      recovery(event).ifPresent(one -> one.reloaded(at));
      trainsSince = trainsSince == 0 ? at : trainsSince;
    }
    if (totals.isBehind(rank.rank())) {
      rank.enter(RankState.REPLAYING, at);
    } else {
      works(rank, 0, 0, at);
    }
    if (points.isEmpty() || points.get(points.size() - 1).done() != done()) {
      points.add(new Point(at, done()));
      thin();
    }
    return rank.state() != before;
  }

  private void works(RankView rank, long roundsAgain, long replayed, long at) {
    rank.seen(at);
    rank.enter(RankState.TRAINING, at);
    Recovery recovery = open.remove(rank.rank());
    if (recovery != null) {
      recovery.caughtUp(roundsAgain, replayed, at);
    }
  }

  private void over(TrainingEvent event) {
    end = event;
    long at = millis(event);
    open.values().forEach(one -> one.cut(at));
    open.clear();
  }

  /** Half of the points are as good where there are many. */
  private void thin() {
    if (points.size() > MOST_POINTS) {
      List<Point> fewer = new ArrayList<>();
      for (int i = 0; i < points.size(); i += 2) {
        fewer.add(points.get(i));
      }
      points = fewer;
    }
  }

  /** An executor has reported: so its ranks live. */
  private void seen(String executor, long at) {
    ranks.values().stream()
        .filter(one -> one.executor().equals(executor))
        .filter(one -> one.state() != RankState.WAITING && one.state() != RankState.LOST)
        .forEach(one -> one.seen(at));
  }

  private void note(long at, String text) {
    if (notes.size() < MOST_NOTES) {
      notes.merge(at, text, (one, other) -> one + "; " + other);
    }
  }

  private RankView rank(TrainingEvent event) {
    return rank(event.rank().orElseThrow());
  }

  RankView rank(int number) {
    return ranks.computeIfAbsent(number, rank -> new RankView(rank, began));
  }

  private Optional<Recovery> recovery(TrainingEvent event) {
    return recovery(event.rank().orElseThrow());
  }

  private Optional<Recovery> recovery(int rank) {
    return Optional.ofNullable(open.get(rank));
  }

  /** The job's 32 hexadecimal digits. */
  String job() {
    return job;
  }

  /** The first 8 of them, as in the log. */
  String brief() {
    return job.substring(0, Math.min(8, job.length()));
  }

  long began() {
    return began;
  }

  /** It is so late, and a job that isn't over lasts: what is waited for may send no event. */
  void now(long at) {
    if (end == null) {
      newest = Math.max(newest, at);
    }
  }

  /** When it was over, or the newest time that is known of one that trains. */
  long newest() {
    return newest;
  }

  boolean isOver() {
    return end != null;
  }

  /** The event of its end; null while it trains. */
  TrainingEvent end() {
    return end;
  }

  /** In a word or two. */
  String state() {
    if (end == null) {
      return ranks.values().stream().allMatch(one -> one.state() == RankState.WAITING)
          ? "waiting for its ranks"
          : "training";
    }
    return end.kind() == TrainingEvent.Kind.JOB_ENDED ? "ended with a model" : "failed";
  }

  /** What was known at its start, as text; empty if it isn't. */
  String fact(String name) {
    return facts.getOrDefault(name, "");
  }

  /** The same as a number; 0 if it isn't known. */
  long number(String name) {
    String text = fact(name);
    return text.matches("\\d{1,18}") ? Long.parseLong(text) : 0;
  }

  Collection<RankView> ranks() {
    return Collections.unmodifiableCollection(ranks.values());
  }

  /** Ranks that have joined and aren't lost. */
  long ranksThere() {
    return totals.ranksThere();
  }

  /** The host of an executor; empty if none is known. */
  String host(String executor) {
    return hosts.getOrDefault(executor, "");
  }

  /** Deaths of all ranks together; a rank that was moved on purpose didn't die. */
  int deaths() {
    return totals.deaths();
  }

  /** What followed each death, and each move of a rank, in their order. */
  List<Recovery> recoveries() {
    return Collections.unmodifiableList(recoveries);
  }

  Costs costs() {
    return new Costs(recoveries, number("ranks"), trainsSince, newest);
  }

  Memory memory() {
    return memory;
  }

  List<Point> points() {
    return Collections.unmodifiableList(points);
  }

  /** What else happened, by its time. */
  Map<Long, String> notes() {
    return Collections.unmodifiableMap(notes);
  }

  /** How XGBoost's collectives go; empty where that is no question. */
  String transport() {
    return transport;
  }

  long version() {
    return totals.version();
  }

  long round() {
    return totals.round();
  }

  /** {@link JobTotals#evaluation}. */
  String evaluation() {
    return totals.evaluation();
  }

  /** Whether the job counts rounds; others have versions alone. */
  boolean hasRounds() {
    return number("rounds") > 0;
  }

  private long done() {
    return hasRounds() ? round() : version();
  }
}
