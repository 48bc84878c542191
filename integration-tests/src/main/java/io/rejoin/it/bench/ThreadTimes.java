package io.rejoin.it.bench;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Processor time of a process's threads with a name that begins so, from {@code /proc}. Linux only.
 */
final class ThreadTimes {
  private ThreadTimes() {}

  /** In nanoseconds; 0 for a process that has ended. */
  static long of(long pid, String prefix) {
    long sum = 0;
    try (DirectoryStream<Path> threads =
        Files.newDirectoryStream(Path.of("/proc", Long.toString(pid), "task"))) {
      for (Path thread : threads) {
        sum += one(thread, prefix);
      }
    } catch (IOException ended) {
      return 0;
    }
    return sum;
  }

  private static long one(Path thread, String prefix) {
    try {
      if (!Files.readString(thread.resolve("comm")).startsWith(prefix)) {
        return 0;
      }
      return Long.parseLong(Files.readString(thread.resolve("schedstat")).split(" ")[0]);
    } catch (IOException ended) {
      return 0; // Between the listing and the look.
    }
  }
}
