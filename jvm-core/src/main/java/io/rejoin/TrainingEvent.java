package io.rejoin;

import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One thing that happened to a job, as its tracker reports it. Durations are milliseconds, lengths
 * bytes. The fields of a kind are those of the native library's events, in snake_case.
 */
public final class TrainingEvent {
  private static final Pattern FIELD = Pattern.compile("\\{(\\w+)}");

  /** The kinds of events; each says which fields it has. */
  public enum Kind {
    /** An agent registered: agent, executor, host, pid. */
    AGENT_JOINED,
    /** An agent is gone: agent, executor, reason. */
    AGENT_LOST,
    /**
     * An agent answers, but nothing else runs in its process for a second or more, a collection of
     * garbage for instance; its ranks aren't lost: agent, executor, silent_millis.
     */
    AGENT_SLOW,
    /** That process runs again: agent, executor, silent_millis. */
    AGENT_RUNS,
    /**
     * A rank has joined: rank, incarnation, index (the number of the framework's task: that of the
     * rank, in a job without spares), stage, task (which try of it), executor, vacant_millis.
     */
    RANK_JOINED,
    /** A newcomer was refused: rank, stage, task, reason. */
    RANK_REFUSED,
    /** A rank was declared lost: rank, incarnation, executor, reason, silent_millis, deaths. */
    RANK_LOST,
    /**
     * In a job with spares a task stands by: index (the task's number), stage, task, executor,
     * spares (how many stand by now).
     */
    SPARE_STANDS_BY,
    /**
     * A task that stood by was given a rank that was lost: rank, index, stage, task, executor,
     * vacant_millis, spares (how many stand by still), reason.
     */
    SPARE_TOOK,
    /** A new view: generation, alive, vacant, reason. */
    VIEW_MADE,
    /** A plan: generation, lineage, version, round, newcomers, reason. */
    PLAN_MADE,
    /** A newcomer has its checkpoint: rank, incarnation, version, round, bytes, source, millis. */
    RESTORED,
    /**
     * A newcomer works with the others again: rank, incarnation, replayed_in, regenerated,
     * rounds_again, millis.
     */
    CAUGHT_UP,
    /**
     * A rank entered a version: rank, incarnation, lineage, version, round. Reported for each of
     * the first 100 versions of an incarnation, and for all while a rank is missing or behind.
     * Otherwise for the newest with each heartbeat at the latest, and for the last one before the
     * rank's end: versions between may be left out.
     */
    VERSION_ENTERED,
    /** A link between living ranks broke: rank, peer, reason. */
    LINK_BROKEN,
    /**
     * Whether XGBoost's collectives are served by Rejoin's own, at all ranks or at none: hooked,
     * reason.
     */
    HOOK_AGREED,
    /**
     * Ranks of one host go over links from now on, since memory can't be shared: rank, peer,
     * reason.
     */
    SHARING_ENDED,
    /** A stranger or an outdated incarnation was refused: address, reason. */
    STRANGER_REFUSED,
    /** A checkpoint is in the durable store: rank, incarnation, version, bytes, millis. */
    DURABLE_WRITTEN,
    /** A checkpoint could not be written there: rank, incarnation, version, reason. */
    DURABLE_FAILED,
    /** All ranks start again from an older version: lineage, version, reason. */
    ROLLED_BACK,
    /**
     * The world has shrunk or grown: ranks (by rank of the world before), world (how many there are
     * now), reason.
     */
    RESIZED,
    /**
     * A task of which the framework has said that it ends it ({@link Tracker#taskLeaves}) may end:
     * index (its number), stage and task (its try; a later one isn't meant), executor (empty if it
     * takes no part), reason.
     */
    TASK_RELEASED,
    /** A fault rule has fired: id, rank, incarnation. */
    FAULT_FIRED,
    /** A rank reported its end: rank, incarnation, digest. */
    RANK_FINISHED,
    /**
     * Memory and disk at an agent: agent, log_bytes, spilled_bytes, checkpoint_bytes,
     * log_bytes_peak; memory that waits to be used again counts.
     */
    USAGE,
    /** All ranks have reached the end: digest, deaths. */
    JOB_ENDED,
    /** The job is over with an error: code, message. */
    JOB_FAILED,
    /**
     * The framework should kill and replace what hosts a task: index (its number: that of its rank,
     * in a job without spares), stage, task, executor, reason.
     */
    KILL_WANTED,
    /**
     * An executor was told of its end in time (Spark): executor, known_millis (for how long the
     * framework knew it), reason.
     */
    EXECUTOR_LEAVES,
    /**
     * A rank's task is ended, because its executor is to go and the rank can be elsewhere at once:
     * rank, executor, reason. What follows is as after a loss.
     */
    RANK_MOVED,
    /** A rank's program has a text for whoever started the job: rank, incarnation, text. */
    PRINTED,
    /** A kind that this version doesn't know. */
    OTHER;

    /** The kind of an event by its name in the native library, for instance {@code RankLost}. */
    static Kind of(String name) {
      String constant = name.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toUpperCase(Locale.ROOT);
      return Arrays.stream(values())
          .filter(k -> k.name().equals(constant))
          .findFirst()
          .orElse(OTHER);
    }
  }

  private final Kind kind;
  private final String name;
  private final long atNanos;
  private final Map<String, String> fields;

  /** An event of {@code kind, key, value, ...}, as the native library gives it. */
  TrainingEvent(String[] words, long atNanos) {
    if (words.length % 2 != 1) {
      throw new IllegalArgumentException(
          "an event is a kind and pairs of key and value, not " + words.length + " words");
    }
    this.name = words[0];
    this.kind = Kind.of(words[0]);
    this.atNanos = atNanos;
    Map<String, String> map = new LinkedHashMap<>();
    for (int i = 1; i < words.length; i += 2) {
      map.put(words[i], words[i + 1]);
    }
    this.fields = Collections.unmodifiableMap(map);
  }

  private TrainingEvent(String name, Map<String, String> fields, long atNanos) {
    this.name = name;
    this.kind = Kind.of(name);
    this.atNanos = atNanos;
    this.fields = Collections.unmodifiableMap(new LinkedHashMap<>(fields));
  }

  /**
   * An event that was recorded, and is read again, perhaps by another process.
   *
   * @param name what {@link #name} was
   * @param atNanos when it was, on the reader's own clock
   */
  public static TrainingEvent recorded(String name, Map<String, String> fields, long atNanos) {
    return new TrainingEvent(name, fields, atNanos);
  }

  /** The kind; {@link Kind#OTHER} for one that this version doesn't know. */
  public Kind kind() {
    return kind;
  }

  /** The name of the kind, also where {@link #kind} is {@link Kind#OTHER}. */
  public String name() {
    return name;
  }

  /** When the driver learned of it, on the clock of {@link System#nanoTime}. */
  public long atNanos() {
    return atNanos;
  }

  /** All fields by name, as text: numbers in decimal, digests in 32 hexadecimal digits. */
  public Map<String, String> fields() {
    return fields;
  }

  /** The rank that it is about, if it is about one. */
  public OptionalInt rank() {
    String value = fields.get("rank");
    return value == null ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(value));
  }

  /** A field as text; empty if the event has no such field. */
  public String text(String field) {
    return fields.getOrDefault(field, "");
  }

  /**
   * A field as a number.
   *
   * @throws IllegalArgumentException when there is no such field, or no number in it
   */
  public long number(String field) {
    String value = fields.get(field);
    if (value == null) {
      throw new IllegalArgumentException(
          "the event " + name + " has no field " + field + ", only " + fields.keySet());
    }
    try {
      return Long.parseLong(value);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          "the field " + field + " of the event " + name + " is no number: " + value, e);
    }
  }

  /**
   * A sentence with this event's fields in place of their names in braces: {@code {rank}}. {@code
   * {place}} is the process that the field {@code executor} names: {@code executor 3} for Spark's
   * bare name, and a name of several words as it is, {@code TaskManager host 4711}.
   */
  public String sentence(String pattern) {
    return FIELD
        .matcher(pattern)
        .replaceAll(
            found -> {
              String field = found.group(1);
              return Matcher.quoteReplacement(field.equals("place") ? place() : text(field));
            });
  }

  private String place() {
    String executor = text("executor");
    return executor.contains(" ") ? executor : "executor " + executor;
  }

  @Override
  public String toString() {
    return name + fields;
  }
}
