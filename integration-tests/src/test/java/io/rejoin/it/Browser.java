package io.rejoin.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A real browser without a window: Debian's Chromium, which {@code scripts/setup.sh} installs. */
final class Browser {
  private static final Duration LIMIT = Duration.ofSeconds(120);

  private final WorkDirectory work;
  private int pages;

  Browser(WorkDirectory work) {
    this.work = work;
  }

  /** What the browser has made of a page: its document, as HTML. */
  WebPage read(String address) throws IOException, InterruptedException {
    Path output = work.file("browser-" + pages + ".html");
    run(output, List.of("--dump-dom"), address);
    return new WebPage(address, Files.readString(output));
  }

  /** A picture of a page, in a window of this size. */
  void picture(String address, int width, int height, Path png)
      throws IOException, InterruptedException {
    Files.createDirectories(png.toAbsolutePath().getParent());
    Files.deleteIfExists(png);
    run(
        work.file("browser-" + pages + ".html"),
        List.of(
            "--hide-scrollbars", "--window-size=" + width + "," + height, "--screenshot=" + png),
        address);
    if (!Files.exists(png)) {
      throw new AssertionError("Chromium has made no picture of " + address + " in " + png);
    }
  }

  private void run(Path output, List<String> what, String address)
      throws IOException, InterruptedException {
    Path errors = work.file("browser-" + pages + ".log");
    List<String> command = new ArrayList<>();
    command.add("chromium");
    // Root may not have Chromium's sandbox, and containers have little shared memory.
    command.addAll(
        List.of("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"));
    command.add("--user-data-dir=" + work.folder("browser-" + pages++));
    command.addAll(what);
    command.add(address);
    Process browser = start(command, output, errors);
    try {
      if (!browser.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
        throw new AssertionError("Chromium is late with " + address + ": " + errors);
      }
      if (browser.exitValue() != 0) {
        throw new AssertionError(
            "Chromium failed with " + browser.exitValue() + " at " + address + ": " + errors);
      }
    } finally {
      browser.descendants().forEach(ProcessHandle::destroyForcibly);
      browser.destroyForcibly().waitFor();
    }
  }

  private static Process start(List<String> command, Path output, Path errors) {
    try {
      return new ProcessBuilder(command)
          .redirectOutput(output.toFile())
          .redirectError(errors.toFile())
          .start();
    } catch (IOException missing) {
      throw new AssertionError(
          "expected Chromium as `chromium` on the PATH, in which pages are looked at; saw "
              + missing.getMessage()
              + ". Install it: scripts/setup.sh, or apt-get install chromium",
          missing);
    }
  }
}
