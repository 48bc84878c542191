package io.rejoin.it;

import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import org.junit.jupiter.api.DynamicTest;

/**
 * Prints each case when it ends, so that a long run that is cut short shows what passed. The lines
 * begin with {@code [long]}; scripts/test.sh shows them as they come.
 */
public final class Progress {
  private static final DateTimeFormatter CLOCK = DateTimeFormatter.ofPattern("HH:mm:ss");

  private final String part;
  private final int all;
  private int done;
  private int failed;

  /**
   * Of a part of the run.
   *
   * @param part its name
   * @param all how many cases it has, 0 if that is unknown
   */
  public Progress(String part, int all) {
    this.part = part;
    this.all = all;
  }

  /** What a case does. */
  public interface Case {
    /** Does it, and throws if it failed. */
    void run() throws Exception;
  }

  /** A test that prints its case. */
  public DynamicTest test(String name, Case work) {
    return DynamicTest.dynamicTest(name, () -> print(name, work));
  }

  private void print(String name, Case work) throws Exception {
    long start = System.nanoTime();
    String end = "FAILED";
    try {
      work.run();
      end = "ok";
    } finally {
      done++;
      failed += end.equals("ok") ? 0 : 1;
      System.out.printf(
          Locale.ROOT,
          "[long] %s %s %d%s %-6s %5.1f s  %s%s%n",
          LocalTime.now().format(CLOCK),
          part,
          done,
          all == 0 ? "" : "/" + all,
          end,
          (System.nanoTime() - start) / 1e9,
          name,
          failed == 0 ? "" : "  (" + failed + " failed until now)");
      System.out.flush();
    }
  }
}
