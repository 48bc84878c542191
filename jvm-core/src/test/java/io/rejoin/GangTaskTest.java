package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.settings.CommonSettings;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A task as it arrives in a process of the cluster. */
class GangTaskTest {
  private static byte[] sent() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(
          new GangTask(
              JobId.random(),
              Secret.random(),
              "127.0.0.1:1",
              CommonSettings.of(Collections.emptyMap())));
    }
    return bytes.toByteArray();
  }

  /** What a process does with the task that it is sent. */
  static void arrive(byte[] sent) throws IOException, ClassNotFoundException {
    try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(sent))) {
      ((GangTask) in.readObject())
          .run(
              new Executor7(),
              Agent.class,
              (job, secret, settings) -> {
                throw new IllegalStateException("an agent was started");
              },
              agent -> {});
    }
  }

  private static final class Executor7 implements GangTask.Place {
    @Override
    public String executor() {
      return "7";
    }

    @Override
    public String hostname() {
      return "localhost";
    }

    @Override
    public String spillDirectory() {
      return System.getProperty("java.io.tmpdir");
    }

    @Override
    public boolean firstTry() {
      return true;
    }

    @Override
    public Optional<String> cancelled() {
      return Optional.empty();
    }
  }

  @Test
  void a_process_with_jars_of_another_version_than_the_drivers_is_refused_by_its_name(
      @TempDir Path folder) throws Exception {
    String own = NativeLibrary.version();
    try (DoctoredClassPath path = new DoctoredClassPath(folder)) {
      path.file("io/rejoin/version.txt", "9.9.9");
      byte[] sent = sent();
      Throwable failure =
          assertThrows(Throwable.class, () -> path.call("io.rejoin.GangTaskTest", "arrive", sent));
      String said = failure.toString();
      assertTrue(said.contains("INCOMPATIBLE"), said);
      assertTrue(said.contains("the driver has Rejoin's jars of version " + own), said);
      assertTrue(said.contains("executor 7 on localhost) of version 9.9.9"), said);
    }
  }

  @Test
  void a_process_with_the_drivers_jars_starts_its_agent() {
    IllegalStateException started = assertThrows(IllegalStateException.class, () -> arrive(sent()));
    assertEquals("an agent was started", started.getMessage());
  }
}
