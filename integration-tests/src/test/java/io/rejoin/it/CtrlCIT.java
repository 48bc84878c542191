package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The user presses Ctrl-C: SIGINT to the driver's process while its executors train. */
@DisplayName("Ctrl-C at the driver in the middle of a training")
class CtrlCIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int WORKERS = 3;

  /** So many that the training can't be over before it is interrupted. */
  private static final int ROUNDS = 5_000;

  private static final int KILLED_ROUND = 5;

  /** What a JVM that was ended by SIGINT returns. */
  private static final int INTERRUPTED = 130;

  @Test
  void ends_every_process_of_its_application_and_the_next_one_trains(@TempDir Path temporary)
      throws Exception {
    // Its slots are needed by the application that is interrupted.
    Sessions.free();
    StandaloneCluster cluster = Sessions.cluster();
    Map<String, String> settings = cluster.configuration();
    settings.put("spark.cores.max", Integer.toString(WORKERS));
    String application = interrupted(settings, temporary);
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (!executors(cluster, application).isEmpty()) {
      assertTrue(
          System.nanoTime() < deadline,
          () -> "executors go on without a driver: " + executors(cluster, application));
      Thread.sleep(50); // Between two looks; the deadline decides, not this.
    }
    SparkSession next = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun run = new RejoinRun(next, Recipe.BINARY, WORKERS, 5);
    assertEquals(
        64, Deadline.within(LIMIT, "the next application", cluster, run::train).digest().length());
  }

  @Test
  void ends_a_process_that_trains_on_threads_of_its_own(@TempDir Path temporary) throws Exception {
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.put("spark.master", "local[3,4]");
    interrupted(settings, temporary);
  }

  /** Starts a driver, interrupts it in a round, and waits for its end. Returns its application. */
  private static String interrupted(Map<String, String> settings, Path temporary) throws Exception {
    String[] training = {Recipe.BINARY.name(), Integer.toString(WORKERS), Integer.toString(ROUNDS)};
    try (FitProcess driver = new FitProcess(settings, temporary.toString(), training)) {
      Process process = driver.process();
      driver.await("round", round -> Integer.parseInt(round) >= KILLED_ROUND, LIMIT.toSeconds());
      List<ProcessHandle> children = process.descendants().collect(Collectors.toList());
      assertTrue(Processes.signal(process.pid(), "INT"), "there is no driver to interrupt");
      assertTrue(
          process.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS), "the driver goes on after SIGINT");
      assertEquals(INTERRUPTED, process.exitValue());
      children.forEach(child -> assertFalse(child.isAlive(), "left behind: " + child.info()));
      assertTrue(
          driver.facts().stream().noneMatch(fact -> fact.startsWith("model")), "it has a model");
      assertEquals(List.of(), ours(temporary), "files left behind");
      return driver.await("application", name -> true, LIMIT.toSeconds());
    }
  }

  private static List<String> executors(StandaloneCluster cluster, String application) {
    return Processes.marked(cluster.mark()).stream()
        .filter(process -> process.option("--app-id").equals(Optional.of(application)))
        .map(process -> process.pid() + " " + process.option("--executor-id"))
        .collect(Collectors.toList());
  }

  /** What Rejoin may have left in the folder for temporary files. */
  private static List<String> ours(Path folder) throws IOException {
    try (Stream<Path> all = Files.walk(folder)) {
      return all.map(path -> path.getFileName().toString())
          .filter(name -> name.contains("rejoin"))
          .filter(name -> !folder.endsWith(name))
          .collect(Collectors.toList());
    }
  }
}
