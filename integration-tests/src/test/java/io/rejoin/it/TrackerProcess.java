package io.rejoin.it;

import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.settings.CommonSettings;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** A tracker in a process of its own, to be killed. */
final class TrackerProcess implements AutoCloseable {
  private static final String ADDRESS = "tracker at ";

  private final JavaProcess process;
  private final String address;

  /** A tracker for one rank with this lease; {@code folder} is for what the child has to know. */
  TrackerProcess(JobId job, Secret secret, long leaseMillis, Path folder) throws IOException {
    Path file = folder.resolve("job");
    try (ObjectOutputStream out = new ObjectOutputStream(Files.newOutputStream(file))) {
      out.writeObject(job);
      out.writeObject(secret);
    }
    String lease = Long.toString(leaseMillis);
    process = new JavaProcess("tracker", Child.class, file.toString(), lease).startPiped();
    BufferedReader said =
        new BufferedReader(
            new InputStreamReader(process.process().getInputStream(), StandardCharsets.UTF_8));
    String line = said.readLine();
    while (line != null && !line.startsWith(ADDRESS)) {
      line = said.readLine();
    }
    if (line == null) {
      process.close();
      throw new IOException("the tracker's process ended before it reported its address");
    }
    address = line.substring(ADDRESS.length());
  }

  /** Where agents find it. */
  String address() {
    return address;
  }

  /** SIGKILL; returns when it is gone. */
  void kill() throws InterruptedException {
    process.process().destroyForcibly().waitFor();
  }

  @Override
  public void close() {
    process.close();
  }

  /** What runs in the process. */
  static final class Child {
    private Child() {}

    /** The file with job and secret, and the lease in milliseconds. */
    public static void main(String[] arguments) throws Exception {
      JobId job;
      Secret secret;
      try (ObjectInputStream in =
          new ObjectInputStream(Files.newInputStream(Path.of(arguments[0])))) {
        job = (JobId) in.readObject();
        secret = (Secret) in.readObject();
      }
      Tracker.Settings settings =
          new Tracker.Settings(1, "127.0.0.1")
              .with(CommonSettings.of(Map.of("lease", arguments[1] + "ms")));
      try (Tracker tracker = Tracker.open(job, secret, settings)) {
        System.out.println(ADDRESS + tracker.address());
        for (; ; ) {
          tracker.poll(10_000);
        }
      }
    }
  }
}
