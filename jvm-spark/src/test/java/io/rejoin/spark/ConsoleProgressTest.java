package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class ConsoleProgressTest {
  private static final String SPARKS = "[Stage ";
  private static final String OURS = "[Job ";
  private static final String BOTH = "(\\[Job \\w{8}: +version 3, 2/2 ranks]){2}\r";
  private static final String ONE = "\r\\[Job \\w{8}: {40,}version 3, 2/2 ranks]\r";

  /** Whatever level the log has. */
  private static final Pattern SUMMARY =
      Pattern.compile(
          "(?m)\\r"
              + "Job \\w{8}: ended at version 3 \\(round 3\\) after \\d+\\.\\d s and 0 deaths"
              + " *\\R");

  @TempDir private Path folder;

  /**
   * On a real terminal, by the program that records one, with the setting that spark-shell has on.
   */
  @Test
  void on_a_terminal_gangs_have_the_line_alone_then_a_summary_each_and_sparks_bar_its_line_again()
      throws Exception {
    Process driver = driver();
    try {
      awaitLine(Pattern.quote(SPARKS), 0);
      go("stage-before");
      awaitLine(BOTH, 0);
      int begun = text().indexOf(OURS);
      go("first-gang");
      // The other one has the whole line then; Spark's bar would be back after 500 ms.
      for (int i = 0; i < 5; i++) {
        awaitLine(ONE, text().length());
      }
      String both = text().substring(begun);
      // On a machine that is busy Spark's may flash up; it would be there as often as ours.
      assertTrue(2 * count(both, SPARKS) < count(both, OURS), both);
      go("second-gang");
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
      while (text().lastIndexOf(SPARKS) < text().lastIndexOf(OURS)) {
        assertTrue(System.nanoTime() < deadline, "Spark's bar doesn't come back: " + text());
        Thread.sleep(20); // Between two looks at a file; the deadline decides, not this.
      }
      go("stage-beside");
      assertTrue(driver.waitFor(60, TimeUnit.SECONDS), "it is late: " + text());
      int last = text().lastIndexOf(OURS);
      int back = text().indexOf(SPARKS, last);
      assertTrue(back > last, text().substring(last));
      String cleared = "\r" + " ".repeat(80) + "\r";
      String between = text().substring(last, back);
      assertTrue(between.contains(cleared), "our line was left on the terminal: " + between);
      assertEquals(2, SUMMARY.matcher(text()).results().count(), text());
    } finally {
      driver.descendants().forEach(ProcessHandle::destroyForcibly);
      driver.destroyForcibly().waitFor();
    }
  }

  private static int count(String text, String part) {
    return text.split(Pattern.quote(part), -1).length - 1;
  }

  private Process driver() throws IOException {
    List<String> java = new ArrayList<>();
    java.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
        .filter(argument -> argument.startsWith("--add-opens"))
        .forEach(java::add);
    java.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"));
    java.add("-Djava.io.tmpdir=" + folder);
    java.add("-Dspark.ui.showConsoleProgress=true");
    java.addAll(List.of(TerminalDriver.class.getName(), folder.toString()));
    String command = java.stream().map(word -> "'" + word + "'").collect(Collectors.joining(" "));
    ProcessBuilder script =
        new ProcessBuilder("script", "--quiet", "--flush", "--command", command, "" + screen())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD);
    script.environment().put("CLASSPATH", System.getProperty("java.class.path"));
    script.environment().put("COLUMNS", "80");
    return script.start();
  }

  private Path screen() {
    return folder.resolve("screen");
  }

  private String text() throws IOException {
    return Files.exists(screen()) ? Files.readString(screen()) : "";
  }

  private void go(String name) throws IOException {
    Files.createFile(folder.resolve(name));
  }

  /** Waits until this is written after {@code from}. */
  private void awaitLine(String pattern, int from) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!Pattern.compile(pattern).matcher(text()).find(from)) {
      assertTrue(System.nanoTime() < deadline, "no " + pattern + " from " + from + ": " + text());
      Thread.sleep(20); // Between two looks at a file; the deadline decides, not this.
    }
  }

  @Test
  void nothing_is_drawn_where_spark_draws_nothing() {
    SparkSession session = LocalSpark.start("local[2,3]");
    try {
      assertTrue(ConsoleProgress.of(session.sparkContext(), List::of).isEmpty());
    } finally {
      session.stop();
    }
  }

  @Test
  void nothing_is_drawn_into_a_file() {
    System.setProperty("spark.ui.showConsoleProgress", "true");
    SparkSession session = LocalSpark.start("local[2,3]");
    try {
      assertTrue(session.sparkContext().progressBar().isDefined());
      // Of whoever started this test, it may be a terminal.
      assertEquals(
          ConsoleProgress.isTerminal(Path.of("/proc/self/fd/2")),
          ConsoleProgress.of(session.sparkContext(), List::of).isPresent());
    } finally {
      session.stop();
      System.clearProperty("spark.ui.showConsoleProgress");
    }
  }

  @Test
  void a_terminal_is_told_from_a_file_and_a_pipe() throws Exception {
    for (String terminal : new String[] {"/dev/pts/3", "/dev/tty1", "/dev/console"}) {
      assertTrue(isTerminal(terminal), terminal);
    }
    for (String other : new String[] {"/dev/null", "pipe:[4711]", "/var/log/tty.log"}) {
      assertFalse(isTerminal(other), other);
    }
    assertFalse(ConsoleProgress.isTerminal(folder.resolve("nothing")));
  }

  private boolean isTerminal(String target) throws Exception {
    Path link = Files.createTempDirectory(folder, "fd").resolve("2");
    return ConsoleProgress.isTerminal(Files.createSymbolicLink(link, Path.of(target)));
  }

  @Test
  void the_line_is_as_wide_as_sparks() {
    assertEquals(132, ConsoleProgress.width("132"));
    assertEquals(80, ConsoleProgress.width(null));
    assertEquals(80, ConsoleProgress.width(""));
  }
}
