package io.rejoin.it.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.LongStream;

/** The most memory that a process had, since it was last forgotten, as Linux counts it. */
final class PeakMemory {
  /** Makes the present use the peak. */
  private static final String FORGET = "5";

  private PeakMemory() {}

  /** Begins to look. */
  static void forget(LongStream pids) throws IOException {
    for (long pid : pids.toArray()) {
      Files.writeString(Path.of("/proc", Long.toString(pid), "clear_refs"), FORGET);
    }
  }

  /** The sum of all, in megabytes. */
  static double megabytes(LongStream pids) throws IOException {
    double sum = 0;
    for (long pid : pids.toArray()) {
      sum +=
          Files.readAllLines(Path.of("/proc", Long.toString(pid), "status")).stream()
              .filter(line -> line.startsWith("VmHWM:"))
              .mapToDouble(line -> Double.parseDouble(Arrays.asList(line.split("\\s+")).get(1)))
              .findFirst()
              .orElseThrow(() -> new IOException("process " + pid + " has no VmHWM"));
    }
    return sum * 1024 / 1e6;
  }
}
