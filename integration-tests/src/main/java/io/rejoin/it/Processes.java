package io.rejoin.it;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * Finds processes of one cluster by a mark on their command lines, and sends signals. Linux only:
 * it reads {@code /proc}.
 */
public final class Processes {
  private Processes() {}

  /**
   * A process.
   *
   * @param pid its number
   * @param command its command line, split
   */
  public record Found(long pid, List<String> command) {
    /** The value that follows an option, as in {@code --executor-id 3}. */
    Optional<String> option(String name) {
      int at = command.indexOf(name);
      return at >= 0 && at + 1 < command.size()
          ? Optional.of(command.get(at + 1))
          : Optional.empty();
    }
  }

  /**
   * Sends a signal, named as {@code kill} names it: KILL, STOP, CONT. False when the process is not
   * there any more.
   */
  public static boolean signal(long pid, String name) {
    try {
      Process kill =
          new ProcessBuilder("kill", "-" + name, Long.toString(pid))
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      return kill.waitFor() == 0;
    } catch (IOException cannot) {
      throw new IllegalStateException(
          "cannot run `kill` for process " + pid + ": is it installed?", cannot);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** All processes that have this word as one of their arguments. */
  public static List<Found> marked(String mark) {
    List<Found> found = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
      for (Path one : all) {
        List<String> command = commandLine(one);
        if (command.contains(mark)) {
          found.add(new Found(Long.parseLong(one.getFileName().toString()), command));
        }
      }
    } catch (IOException cannot) {
      throw new IllegalStateException(
          "cannot list /proc: the integration tests need Linux", cannot);
    }
    return found;
  }

  /**
   * The living executors of an application: those whose command line has the mark and the
   * executor's name.
   */
  public static Optional<Found> executor(String mark, String applicationId, String executorId) {
    return marked(mark).stream()
        .filter(p -> p.option("--app-id").equals(Optional.of(applicationId)))
        .filter(p -> p.option("--executor-id").equals(Optional.of(executorId)))
        .findFirst();
  }

  /** All processes whose working directory is this folder or one below it. */
  public static List<Long> workingIn(Path folder) {
    List<Long> found = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
      for (Path one : all) {
        if (workingDirectory(one).startsWith(folder)) {
          found.add(Long.parseLong(one.getFileName().toString()));
        }
      }
    } catch (IOException cannot) {
      throw new IllegalStateException(
          "cannot list /proc: the integration tests need Linux", cannot);
    }
    return found;
  }

  private static Path workingDirectory(Path process) {
    try {
      return Files.readSymbolicLink(process.resolve("cwd"));
    } catch (IOException gone) {
      return Path.of("/");
    }
  }

  private static List<String> commandLine(Path process) {
    try {
      byte[] raw = Files.readAllBytes(process.resolve("cmdline"));
      return Arrays.asList(new String(raw, StandardCharsets.UTF_8).split("\0"));
    } catch (IOException gone) {
      return List.of();
    }
  }
}
