package io.rejoin.it;

import io.rejoin.TrainingEvent;
import io.rejoin.it.Terminal.Tone;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * Makes sentences of the facts of a training, and keeps the figures that the demo's table shows.
 */
public final class DemoNarration {
  private static final int MOST_REASON = 90;

  private final Terminal terminal;
  private final int workers;
  private final Map<Integer, Integer> roundOf = new HashMap<>();
  private final Map<Integer, Long> firedAt = new HashMap<>();
  private final Map<Integer, Long> lostAt = new HashMap<>();
  private final Map<String, String> processOf = new HashMap<>();
  private final Map<Integer, String> executorOf = new HashMap<>();
  private final Set<Integer> rebuilding = new LinkedHashSet<>();
  private final Set<Integer> away = new LinkedHashSet<>();
  private final Set<Integer> finished = new LinkedHashSet<>();
  private final Set<String> digests = new LinkedHashSet<>();
  private int told = -1;

  /** For a training of so many ranks. */
  public DemoNarration(Terminal terminal, int workers) {
    this.terminal = terminal;
    this.workers = workers;
  }

  /** Takes one event. */
  public synchronized void event(TrainingEvent event) {
    Map<String, String> fields = event.fields();
    switch (event.kind()) {
      case AGENT_JOINED:
        processOf.put(fields.get("executor"), fields.get("pid"));
        break;
      case RANK_JOINED:
        joined(fields);
        break;
      case HOOK_AGREED:
        say(
            Tone.PLAIN,
            fields.get("hooked").equals("true")
                ? "XGBoost's collectives are served by Rejoin's own: %s"
                : "XGBoost's collectives go through the bridge: %s",
            reason(fields));
        break;
      case VERSION_ENTERED:
        entered(rank(fields), number(fields, "round"));
        break;
      case FAULT_FIRED:
        firedAt.put(rank(fields), System.nanoTime());
        String executor = executorOf.getOrDefault(rank(fields), "?");
        String process = processOf.getOrDefault(executor, "?");
        say(
            Tone.BAD,
            "rank %d: its executor %s (process %s) is killed by SIGKILL",
            rank(fields),
            executor,
            process);
        break;
      case RANK_LOST:
        lost(fields);
        break;
      case PLAN_MADE:
        if (!fields.getOrDefault("newcomers", "").isEmpty() && number(fields, "version") > 0) {
          say(
              Tone.HEALING,
              "plan: rank %s starts at version %s (%s)",
              fields.get("newcomers"),
              fields.get("version"),
              reason(fields));
        }
        break;
      case RESTORED:
        if (number(fields, "incarnation") > 0) {
          say(
              Tone.HEALING,
              "rank %d: model restored to version %s, the state before round %s: %s from %s in %s"
                  + " ms",
              rank(fields),
              fields.get("version"),
              fields.get("round"),
              bytes(fields, "bytes"),
              fields.get("source"),
              fields.get("millis"));
        }
        break;
      case CAUGHT_UP:
        caughtUp(fields);
        break;
      case RANK_REFUSED:
        say(Tone.BAD, "rank %d: a newcomer is turned away: %s", rank(fields), reason(fields));
        break;
      case LINK_BROKEN:
        if (!away.contains(rank(fields)) && !away.contains((int) number(fields, "peer"))) {
          say(
              Tone.HEALING,
              "the link between ranks %s and %s is made anew: %s",
              fields.get("rank"),
              fields.get("peer"),
              reason(fields));
        }
        break;
      case ROLLED_BACK:
        say(
            Tone.BAD,
            "everybody starts again from version %s: %s",
            fields.get("version"),
            reason(fields));
        break;
      case RANK_FINISHED:
        finished.add(rank(fields));
        digests.add(fields.get("digest"));
        if (finished.size() == workers) {
          say(
              Tone.GOOD,
              "all %d ranks have finished, with %s",
              workers,
              digests.size() == 1 ? "the same model" : digests);
        }
        break;
      case JOB_FAILED:
        say(Tone.BAD, "the job ends with an error: %s", fields);
        break;
      default:
        break;
    }
  }

  /**
   * A task starts once more, as Spark tells. {@code stageAttempt} above 0: with its whole stage.
   */
  public synchronized void rescheduled(int rank, int stageAttempt, int attempt, String executor) {
    String which = stageAttempt == 0 ? "its task again" : "the whole stage again";
    String others = stageAttempt == 0 ? "; the others keep theirs" : "";
    String since = after(lostAt.get(rank), " s after the loss");
    say(
        Tone.HEALING,
        "rank %d: Spark starts %s, attempt %d, on executor %s%s%s",
        rank,
        which,
        attempt,
        executor,
        since,
        others);
  }

  /** An executor came or went, as Spark tells. */
  public synchronized void executor(String executor, boolean there) {
    terminal.line(Tone.QUIET, "Spark: executor " + executor + (there ? " is there" : " is gone"));
  }

  private void joined(Map<String, String> fields) {
    int rank = rank(fields);
    executorOf.put(rank, fields.get("executor"));
    if (number(fields, "incarnation") > 0) {
      away.remove(rank);
      rebuilding.add(rank);
      say(
          Tone.HEALING,
          "rank %d: has its seat again as incarnation %s on executor %s; it was vacant for %s s",
          rank,
          fields.get("incarnation"),
          fields.get("executor"),
          seconds(fields, "vacant_millis"));
    } else if (executorOf.size() == workers) {
      say(Tone.PLAIN, "all %d ranks have their seats", workers);
    }
  }

  private void entered(int rank, long round) {
    if (rebuilding.remove(rank)) {
      say(
          Tone.HEALING,
          "rank %d: data reloaded, DMatrix and sketch rebuilt; it replays from round %d on",
          rank,
          round);
    }
    roundOf.put(rank, (int) round);
    if (roundOf.size() < workers) {
      return;
    }
    int slowest = roundOf.values().stream().mapToInt(Integer::intValue).min().getAsInt();
    for (; told < slowest - 1; told++) {
      terminal.grow("rounds done:", Integer.toString(told + 1));
    }
  }

  private void lost(Map<String, String> fields) {
    int rank = rank(fields);
    away.add(rank);
    lostAt.put(rank, System.nanoTime());
    Long struck = firedAt.get(rank);
    String noticed =
        struck == null
            ? ""
            : String.format(
                Locale.ROOT,
                ", noticed %.0f ms after the kill",
                (System.nanoTime() - struck) / 1e6);
    say(
        Tone.BAD,
        "rank %d is lost%s: %s (death %s of this rank)",
        rank,
        noticed,
        reason(fields),
        fields.get("deaths"));
  }

  private void caughtUp(Map<String, String> fields) {
    int rank = rank(fields);
    say(
        Tone.GOOD,
        "rank %d has caught up%s: %s replayed to it, %s produced again, compared and dropped;"
            + " rounds computed twice: %s",
        rank,
        after(firedAt.get(rank), " s after the kill"),
        bytes(fields, "replayed_in"),
        bytes(fields, "regenerated"),
        fields.get("rounds_again"));
  }

  private static String after(Long moment, String unit) {
    return moment == null
        ? ""
        : String.format(Locale.ROOT, " %.2f%s", (System.nanoTime() - moment) / 1e9, unit);
  }

  private void say(Tone tone, String format, Object... facts) {
    terminal.line(tone, String.format(Locale.ROOT, format, facts));
  }

  /** The beginning of a reason: some frameworks give theirs in a paragraph. */
  private static String reason(Map<String, String> fields) {
    String text = fields.getOrDefault("reason", "").lines().findFirst().orElse("");
    return text.length() <= MOST_REASON ? text : text.substring(0, MOST_REASON) + "...";
  }

  private static int rank(Map<String, String> fields) {
    return (int) number(fields, "rank");
  }

  private static long number(Map<String, String> fields, String key) {
    String text = fields.get(key);
    if (text == null) {
      throw new IllegalArgumentException("an event has no `" + key + "`: " + fields);
    }
    return Long.parseLong(text);
  }

  private static String seconds(Map<String, String> fields, String key) {
    return String.format(Locale.ROOT, "%.2f", number(fields, key) / 1e3);
  }

  private static String bytes(Map<String, String> fields, String key) {
    return bytes(number(fields, key));
  }

  /** A number of bytes for people. */
  static String bytes(long bytes) {
    if (bytes < 10_000) {
      return bytes + " bytes";
    }
    return bytes < 10_000_000 ? bytes / 1000 + " kB" : bytes / 1_000_000 + " MB";
  }
}
