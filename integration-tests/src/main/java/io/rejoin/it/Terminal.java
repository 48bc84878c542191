package io.rejoin.it;

import java.io.OutputStream;
import java.io.PrintStream;
import java.util.Locale;

/**
 * Shows what happens on a terminal: titles, lines with a clock in front, and rows of words that
 * grow. Colour only on a real terminal.
 */
public final class Terminal {
  /** How a line is meant; it decides its colour. */
  public enum Tone {
    /** As it should be. */
    PLAIN("", "  "),
    /** A fault has fired. */
    BAD("\u001b[31m", "x "),
    /** Something is on its way back. */
    HEALING("\u001b[33m", "> "),
    /** All is well again. */
    GOOD("\u001b[32m", "= "),
    /** What Spark says. */
    QUIET("\u001b[2m", "  ");

    private final String colour;
    private final String sign;

    Tone(String colour, String sign) {
      this.colour = colour;
      this.sign = sign;
    }
  }

  private static final String OFF = "\u001b[0m";
  private static final String BOLD = "\u001b[1m";
  private static final int WIDTH = 110;

  private final PrintStream out;
  private final boolean colour;
  private long start = System.nanoTime();
  private int column;
  private String row;

  public Terminal(PrintStream out, boolean colour) {
    this.out = out;
    this.colour = colour;
  }

  /** On the standard output; with colour if that is a terminal and {@code NO_COLOR} isn't set. */
  public static Terminal standard() {
    String term = System.getenv("TERM");
    boolean colour =
        System.console() != null
            && System.getenv("NO_COLOR") == null
            && term != null
            && !term.equals("dumb");
    return new Terminal(System.out, colour);
  }

  /** One that shows nothing. */
  public static Terminal silent() {
    return new Terminal(new PrintStream(OutputStream.nullOutputStream()), false);
  }

  /** A chapter begins; its clock starts at zero. */
  public synchronized void title(String text) {
    endRow();
    out.println();
    out.println(paint(BOLD, text));
    start = System.nanoTime();
  }

  /** One thing that happened, now. */
  public synchronized void line(Tone tone, String text) {
    endRow();
    out.println(clock() + paint(tone.colour, tone.sign + text));
    out.flush();
  }

  /** One thing that happened, now, as a matter of course. */
  public void line(String text) {
    line(Tone.PLAIN, text);
  }

  /** A word more in the row of that name; another row, or a line, ends it. */
  public synchronized void grow(String name, String word) {
    if (!name.equals(row) || column + word.length() + 1 > WIDTH) {
      boolean more = name.equals(row);
      endRow();
      String head = more ? " ".repeat(clock().length() + 2 + name.length()) : clock() + "  " + name;
      out.print(head);
      column = head.length();
      row = name;
    }
    out.print(" " + word);
    out.flush();
    column += word.length() + 1;
  }

  /** Text as it is, without a clock. */
  public synchronized void print(String text) {
    endRow();
    out.println(text);
    out.flush();
  }

  /** The text in a tone, for tables. */
  public String paint(Tone tone, String text) {
    return paint(tone.colour, text);
  }

  private String paint(String code, String text) {
    return colour && !code.isEmpty() ? code + text + OFF : text;
  }

  private void endRow() {
    if (row != null) {
      out.println();
      row = null;
    }
  }

  private String clock() {
    return String.format(Locale.ROOT, "%8.2f s ", (System.nanoTime() - start) / 1e9);
  }
}
