package io.rejoin.it;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** How many files a process may have open ({@code ulimit -n}), by util-linux's {@code prlimit}. */
final class Descriptors implements AutoCloseable {
  private final List<Runnable> before = new ArrayList<>();

  /** Limits these processes, and what they start from now on. */
  static Descriptors limited(int most, long... processes) {
    Descriptors limited = new Descriptors();
    for (long process : processes) {
      int was = most(process);
      limited.before.add(() -> limit(process, was));
      limit(process, most);
    }
    return limited;
  }

  /** How many this process may have open now. */
  static int most(long process) {
    return Integer.parseInt(
        prlimit("--raw", "--noheadings", "--output=SOFT", "--nofile", "--pid=" + process));
  }

  /** The soft limit alone, which any user may raise again. */
  private static void limit(long process, int most) {
    prlimit("--nofile=" + most + ":", "--pid=" + process);
  }

  private static String prlimit(String... options) {
    List<String> command = new ArrayList<>(List.of("prlimit"));
    command.addAll(List.of(options));
    try {
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      String said =
          new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
      if (process.waitFor() != 0) {
        throw new IllegalStateException(String.join(" ", command) + ": " + said);
      }
      return said;
    } catch (IOException cannot) {
      throw new IllegalStateException(
          "cannot run `prlimit`: is it installed (Debian: util-linux)?", cannot);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while running prlimit", interrupted);
    }
  }

  @Override
  public void close() {
    before.forEach(Runnable::run);
  }
}
