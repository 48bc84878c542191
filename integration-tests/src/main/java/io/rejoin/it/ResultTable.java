package io.rejoin.it;

import io.rejoin.it.Terminal.Tone;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;

/** The table at the end of the demo: a column per training, a row per figure. */
final class ResultTable {
  /** One column: the name of a training in two lines, and what became of it. */
  record Column(String who, String how, Outcome outcome, Outcome undisturbed) {
    private boolean model() {
      return outcome.digest() != null;
    }

    private String back() {
      return outcome.backMillis() < 0 ? "-" : decimal(outcome.backMillis());
    }

    private String lost() {
      return undisturbed == null
          ? "-"
          : (model() ? "" : "> ") + decimal(outcome.millis() - undisturbed.millis());
    }
  }

  private static final int NAME = 32;
  private static final int CELL = 17;

  private final Terminal terminal;
  private final List<Column> columns = new ArrayList<>();

  ResultTable(Terminal terminal) {
    this.terminal = terminal;
  }

  /**
   * A training, and the one without a kill that it is measured against (null for that one itself).
   */
  void add(String who, String how, Outcome outcome, Outcome undisturbed) {
    columns.add(new Column(who, how, outcome, undisturbed));
  }

  /**
   * Whether all of ours made a model as they should, and all models that there are have one digest.
   */
  boolean agree() {
    boolean ours =
        columns.stream()
            .filter(c -> c.who().startsWith("Rejoin"))
            .allMatch(c -> c.outcome().trouble() == null);
    return ours
        && columns.stream().map(c -> c.outcome().digest()).filter(d -> d != null).distinct().count()
            == 1;
  }

  void print() {
    terminal.print("");
    row("", Column::who);
    row("", Column::how);
    terminal.print("  " + "-".repeat(NAME + CELL * columns.size()));
    row("model, SHA-256", c -> c.model() ? c.outcome().digest().substring(0, 16) : "none");
    row(
        "whole fit, seconds",
        c -> decimal(c.outcome().millis()) + (c.model() ? "" : " (given up)"));
    row("seconds lost by the kill", Column::lost);
    row("seconds until it is where it was", Column::back);
    row("rounds computed twice, by ranks", c -> Integer.toString(c.outcome().roundsAgain()));
    row("executors asked for", c -> c.model() ? Integer.toString(c.outcome().executors()) : "?");
    row("executor-seconds", c -> c.model() ? decimal(c.outcome().executorMillis()) : "?");
    row(
        "shuffled or copied again",
        c -> c.model() ? DemoNarration.bytes(c.outcome().bytesAgain()) : "?");
    for (Column column : columns) {
      if (column.outcome().trouble() != null) {
        terminal.print(
            "  "
                + terminal.paint(
                    Tone.BAD,
                    column.who() + ", " + column.how() + ": " + column.outcome().trouble()));
      }
    }
    terminal.print("");
  }

  private void row(String name, Function<Column, String> cell) {
    StringBuilder line = new StringBuilder("  ").append(String.format("%-" + NAME + "s", name));
    columns.forEach(c -> line.append(String.format("%" + CELL + "s", cell.apply(c))));
    terminal.print(line.toString());
  }

  private static String decimal(long millis) {
    return String.format(Locale.ROOT, "%.1f", millis / 1e3);
  }
}
