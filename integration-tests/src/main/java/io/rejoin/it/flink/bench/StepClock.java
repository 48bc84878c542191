package io.rejoin.it.flink.bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * How long a number of steps takes, on the thread that makes them: from the end of the last step
 * that warms up to the end of the last one. Each copy of it that a task makes its steps with leaves
 * a file with the time, and with the processor's time of its process.
 */
public final class StepClock implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String PREFIX = "time-";

  private final String folder;
  private final int warmup;
  private final int counted;
  private transient int steps;
  private transient Time began;

  /**
   * What steps have taken.
   *
   * @param nanos by the clock
   * @param cpuNanos of the processors, by all threads of the process
   */
  record Time(long nanos, long cpuNanos) {
    private static Time now() {
      OperatingSystemMXBean system =
          (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
      return new Time(System.nanoTime(), system.getProcessCpuTime());
    }
  }

  /** For so many steps after so many that warm up; the files go into a folder. */
  StepClock(Path folder, int warmup, int counted) {
    this.folder = folder.toString();
    this.warmup = warmup;
    this.counted = counted;
  }

  /** How many steps are made, with those that warm up. */
  public int steps() {
    return warmup + counted;
  }

  /** How many steps count. */
  int counted() {
    return counted;
  }

  /**
   * A step has been made.
   *
   * @param name of whoever makes them: a file's
   */
  public void step(String name) throws IOException {
    steps++;
    if (steps == warmup) {
      began = Time.now();
    } else if (steps == warmup + counted) {
      Time ended = Time.now();
      long nanos = ended.nanos - began.nanos;
      long cpuNanos = ended.cpuNanos - began.cpuNanos;
      Path file = Path.of(folder).resolve(PREFIX + name);
      Path whole = Files.writeString(file.resolveSibling(name), nanos + " " + cpuNanos);
      Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
    }
  }

  /** The times that are there. */
  List<Time> times() throws IOException {
    List<Time> all = new ArrayList<>();
    try (Stream<Path> files = Files.list(Path.of(folder))) {
      for (Path file : (Iterable<Path>) files::iterator) {
        if (file.getFileName().toString().startsWith(PREFIX)) {
          String[] parts = Files.readString(file).split(" ");
          all.add(new Time(Long.parseLong(parts[0]), Long.parseLong(parts[1])));
        }
      }
    }
    return all;
  }
}
