package io.rejoin.it;

import io.rejoin.it.Attacker.Manner;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * Connections without the secret at every port where the trainings of this process listen: the
 * tracker's, and each executor's agent and bridge. Until it is closed.
 */
final class Attack implements AutoCloseable {
  private static final long START_SECONDS = 60;
  private static final long WARM_SECONDS = 2;

  private final JavaProcess process;
  private final int each;
  private final int perSecond;
  private long made;
  private int ports;
  private String end;

  /**
   * Begins one.
   *
   * @param each how many connections at each port
   * @param perSecond how many of all are looked at, or made again, in a second
   */
  Attack(Manner manner, int each, int perSecond) throws IOException {
    this.each = each;
    this.perSecond = perSecond;
    this.process =
        new JavaProcess(
                "attacker",
                Attacker.class,
                manner.name(),
                Integer.toString(each),
                Integer.toString(perSecond),
                Long.toString(ProcessHandle.current().pid()),
                Sessions.cluster().mark())
            // What it compiles it has soon compiled: processors are for its connections.
            .option("-XX:TieredStopAtLevel=1")
            .startPiped();
    Thread reader = new Thread(this::read, "attacker-output");
    reader.setDaemon(true);
    reader.start();
  }

  private void read() {
    String last = "";
    try (BufferedReader in =
        new BufferedReader(
            new InputStreamReader(process.process().getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        String[] words = line.split(" ");
        if (words.length == 4 && words[0].equals("made")) {
          synchronized (this) {
            made = Long.parseLong(words[1]);
            ports = Integer.parseInt(words[3]);
            notifyAll();
          }
        }
      }
      // An exception, if it is one that has ended it.
      byte[] errors = process.process().getErrorStream().readAllBytes();
      last = new String(errors, StandardCharsets.UTF_8);
    } catch (IOException closed) {
      last = closed.toString();
    }
    synchronized (this) {
      end = "ended: " + last;
      notifyAll();
    }
  }

  /**
   * Waits until it has made all its connections at so many ports, and goes on as it will: a JVM
   * that starts takes more of the processors than thousands of connections do.
   */
  synchronized void await(int wanted) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
    long begun = (long) each * wanted + WARM_SECONDS * perSecond;
    while (ports < wanted || made < begun) {
      long left = deadline - System.nanoTime();
      if (left <= 0 || end != null) {
        String state = end != null ? end : "late";
        throw new IllegalStateException(
            process + " is " + state + " with " + this + "; wanted " + wanted + " ports");
      }
      try {
        TimeUnit.NANOSECONDS.timedWait(this, left);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for " + process, interrupted);
      }
    }
  }

  /** How many connections it has made until now. */
  synchronized long made() {
    if (end != null) {
      throw new IllegalStateException(process + " has " + end);
    }
    return made;
  }

  @Override
  public synchronized String toString() {
    return made + " connections at " + ports + " ports";
  }

  @Override
  public void close() {
    process.close();
  }
}
