package io.rejoin.it;

import io.rejoin.it.Terminal.Tone;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The table at the end of the demo: a column per training, a row per figure. */
final class ResultTable {
  /** One column: the name of a training in two lines, and what became of it. */
  record Column(String who, String how, Outcome outcome, Outcome undisturbed) {}

  private static final int NAME = 32;
  private static final int CELL = 20;

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
   * Whether both of ours made a model as they should, and all models that there are have one
   * digest.
   */
  boolean agree() {
    boolean ours =
        columns.stream()
            .filter(c -> c.who().equals("Rejoin"))
            .allMatch(c -> c.outcome().trouble() == null);
    return ours
        && columns.stream().map(c -> c.outcome().digest()).filter(d -> d != null).distinct().count()
            == 1;
  }

  void print() {
    List<String> head = new ArrayList<>();
    List<String> how = new ArrayList<>();
    List<String> digest = new ArrayList<>();
    List<String> seconds = new ArrayList<>();
    List<String> lost = new ArrayList<>();
    List<String> again = new ArrayList<>();
    List<String> executors = new ArrayList<>();
    List<String> bytes = new ArrayList<>();
    for (Column column : columns) {
      Outcome outcome = column.outcome();
      Outcome base = column.undisturbed();
      boolean model = outcome.digest() != null;
      head.add(column.who());
      how.add(column.how());
      digest.add(model ? outcome.digest().substring(0, 16) : "none");
      seconds.add(decimal(outcome.millis()) + (model ? "" : " (given up)"));
      lost.add(
          base == null ? "-" : (model ? "" : "> ") + decimal(outcome.millis() - base.millis()));
      again.add(Integer.toString(outcome.roundsAgain()));
      executors.add(model ? Integer.toString(outcome.executors()) : "?");
      bytes.add(model ? DemoNarration.bytes(outcome.bytesAgain()) : "?");
    }
    terminal.print("");
    row("", head);
    row("", how);
    terminal.print("  " + "-".repeat(NAME + CELL * columns.size()));
    row("model, SHA-256", digest);
    row("whole fit, seconds", seconds);
    row("seconds lost by the kill", lost);
    row("rounds computed twice, by ranks", again);
    row("executors asked for", executors);
    row("shuffled or copied again", bytes);
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

  private void row(String name, List<String> cells) {
    StringBuilder line = new StringBuilder("  ").append(String.format("%-" + NAME + "s", name));
    cells.forEach(cell -> line.append(String.format("%" + CELL + "s", cell)));
    terminal.print(line.toString());
  }

  private static String decimal(long millis) {
    return String.format(Locale.ROOT, "%.1f", millis / 1e3);
  }
}
