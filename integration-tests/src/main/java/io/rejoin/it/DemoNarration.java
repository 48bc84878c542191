package io.rejoin.it;

import io.rejoin.TrainingEvent;
import io.rejoin.it.Terminal.Tone;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * Makes sentences of the facts of a training, and keeps the figures that the demo's table shows.
 */
public final class DemoNarration {
  private static final char SHIELDED = '\u0001';
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
  private int shown = -1;

  /** For a training of so many ranks. */
  public DemoNarration(Terminal terminal, int workers) {
    this.terminal = terminal;
    this.workers = workers;
  }

  public synchronized void event(TrainingEvent event) {
    switch (event.kind()) {
      case AGENT_JOINED -> processOf.put(event.text("executor"), event.text("pid"));
      case RANK_JOINED -> joined(event);
      case HOOK_AGREED -> {
        boolean hooked = Boolean.parseBoolean(event.text("hooked"));
        String how = hooked ? "are served by Rejoin's own" : "go through the bridge";
        say(Tone.PLAIN, event, "XGBoost's collectives %s: %s", how, reason(event));
      }
      case VERSION_ENTERED -> entered(event);
      case FAULT_FIRED -> {
        firedAt.put(rank(event), System.nanoTime());
        String executor = executorOf.getOrDefault(rank(event), "?");
        String process = processOf.getOrDefault(executor, "?");
        String killed = "rank {rank}: its executor %s (process %s) is killed by SIGKILL";
        say(Tone.BAD, event, killed, executor, process);
      }
      case RANK_LOST -> lost(event);
      case PLAN_MADE -> {
        if (!event.text("newcomers").isEmpty() && event.number("version") > 0) {
          String plan = "plan: rank {newcomers} starts at version {version} (%s)";
          say(Tone.HEALING, event, plan, reason(event));
        }
      }
      case RESTORED -> {
        if (event.number("incarnation") > 0) {
          String restored =
              "rank {rank}: model restored to version {version}, the state before round {round}: %s"
                  + " from {source} in {millis} ms";
          say(Tone.HEALING, event, restored, bytes(event, "bytes"));
        }
      }
      case CAUGHT_UP -> caughtUp(event);
      case RANK_REFUSED ->
          say(Tone.BAD, event, "rank {rank}: a newcomer is refused: %s", reason(event));
      case LINK_BROKEN -> {
        if (!away.contains(rank(event)) && !away.contains((int) event.number("peer"))) {
          String broken = "the link between ranks {rank} and {peer} is made anew: %s";
          say(Tone.HEALING, event, broken, reason(event));
        }
      }
      case ROLLED_BACK ->
          say(Tone.BAD, event, "all ranks start again from version {version}: %s", reason(event));
      case RANK_FINISHED -> finished(event);
      case JOB_FAILED -> say(Tone.BAD, event, "the job ends with an error: %s", event.fields());
      default -> {}
    }
  }

  /**
   * A task starts once more, as Spark reports. {@code stageAttempt} above 0: with its whole stage.
   */
  public synchronized void rescheduled(int rank, int stageAttempt, int attempt, String executor) {
    String which = stageAttempt == 0 ? "its task again" : "the whole stage again";
    String others = stageAttempt == 0 ? "; the others keep theirs" : "";
    String since = after(lostAt.get(rank), " s after the loss");
    terminal.line(
        Tone.HEALING,
        String.format(
            Locale.ROOT,
            "rank %d: Spark starts %s, attempt %d, on executor %s%s%s",
            rank,
            which,
            attempt,
            executor,
            since,
            others));
  }

  /** An executor came or went, as Spark reports. */
  public synchronized void executor(String executor, boolean there) {
    terminal.line(Tone.QUIET, "Spark: executor " + executor + (there ? " is there" : " is gone"));
  }

  private void joined(TrainingEvent event) {
    int rank = rank(event);
    executorOf.put(rank, event.text("executor"));
    if (event.number("incarnation") > 0) {
      away.remove(rank);
      rebuilding.add(rank);
      say(
          Tone.HEALING,
          event,
          "rank {rank}: has joined again as incarnation {incarnation} on executor {executor}; its"
              + " slot was vacant for %.2f s",
          event.number("vacant_millis") / 1e3);
    } else if (executorOf.size() == workers) {
      say(Tone.PLAIN, event, "all %d ranks have joined", workers);
    }
  }

  private void entered(TrainingEvent event) {
    if (rebuilding.remove(rank(event))) {
      String rebuilt =
          "rank {rank}: data reloaded, DMatrix and sketch rebuilt; it replays from round {round}"
              + " on";
      say(Tone.HEALING, event, rebuilt);
    }
    roundOf.put(rank(event), (int) event.number("round"));
    if (roundOf.size() < workers) {
      return;
    }
    int slowest = Collections.min(roundOf.values());
    for (; shown < slowest - 1; shown++) {
      terminal.grow("rounds done:", Integer.toString(shown + 1));
    }
  }

  private void lost(TrainingEvent event) {
    away.add(rank(event));
    lostAt.put(rank(event), System.nanoTime());
    Long fired = firedAt.get(rank(event));
    String noticed =
        fired == null
            ? ""
            : String.format(
                Locale.ROOT,
                ", noticed %d ms after the kill",
                (System.nanoTime() - fired) / 1_000_000);
    String lost = "rank {rank} is lost%s: %s (death {deaths} of this rank)";
    say(Tone.BAD, event, lost, noticed, reason(event));
  }

  private void caughtUp(TrainingEvent event) {
    say(
        Tone.GOOD,
        event,
        "rank {rank} has caught up%s: %s replayed to it, %s produced again, compared and dropped;"
            + " rounds computed twice: {rounds_again}",
        after(firedAt.get(rank(event)), " s after the kill"),
        bytes(event, "replayed_in"),
        bytes(event, "regenerated"));
  }

  private void finished(TrainingEvent event) {
    finished.add(rank(event));
    digests.add(event.text("digest"));
    if (finished.size() == workers) {
      Object models = digests.size() == 1 ? "the same model" : digests;
      say(Tone.GOOD, event, "all %d ranks have finished, with %s", workers, models);
    }
  }

  private static String after(Long moment, String unit) {
    return moment == null
        ? ""
        : String.format(Locale.ROOT, " %.2f%s", (System.nanoTime() - moment) / 1e9, unit);
  }

  private void say(Tone tone, TrainingEvent event, String pattern, Object... facts) {
    // Only the pattern's braces name fields: those of a fact stay as they are.
    Object[] shielded =
        Arrays.stream(facts)
            .map(fact -> fact instanceof String text ? text.replace('{', SHIELDED) : fact)
            .toArray();
    String sentence = event.sentence(String.format(Locale.ROOT, pattern, shielded));
    terminal.line(tone, sentence.replace(SHIELDED, '{'));
  }

  /** The beginning of a reason: some frameworks give theirs in a paragraph. */
  private static String reason(TrainingEvent event) {
    String text = event.text("reason").lines().findFirst().orElse("");
    return text.length() <= MOST_REASON ? text : text.substring(0, MOST_REASON) + "...";
  }

  private static int rank(TrainingEvent event) {
    return event.rank().orElseThrow();
  }

  private static String bytes(TrainingEvent event, String field) {
    return bytes(event.number(field));
  }

  /** A number of bytes for people. */
  static String bytes(long bytes) {
    if (bytes < 10_000) {
      return bytes + " bytes";
    }
    return bytes < 10_000_000 ? bytes / 1000 + " kB" : bytes / 1_000_000 + " MB";
  }
}
