package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The driver is a process of the cluster's, which starts it again when it dies. */
@DisplayName("standalone, in cluster mode with --supervise")
class SuperviseIT {
  private static final Duration LIMIT = Duration.ofSeconds(400);
  private static final int HELD_UP = 12;

  @Test
  void a_driver_that_is_killed_after_an_executor_goes_on_where_it_was_and_the_model_is_the_same()
      throws Exception {
    Sessions.free();
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    Path distribution = Path.of("build/spark-" + version);
    try (StandaloneCluster cluster = StandaloneCluster.start("supervise", 5, distribution)) {
      WorkDirectory work = cluster.work();
      Map<String, String> settings = cluster.configuration();
      settings.put("spark.submit.deployMode", "cluster");
      settings.put("spark.standalone.submit.waitAppCompletion", "true");
      settings.put("spark.driver.memory", "640m");
      settings.put("spark.cores.max", "3");
      settings.put("spark.rejoin.checkpoint.rounds", "1");
      settings.put("spark.rejoin.durable", work.folder("durable").toUri().toString());
      settings.put("spark.rejoin.durable.every", "2");
      // Spark's standalone cluster mode doesn't say to the driver's JVM what it says to all others.
      String opens =
          JavaProcess.OPENS.stream()
              .map(open -> "--add-opens=" + open + "=ALL-UNNAMED")
              .collect(Collectors.joining(" "));
      settings.put(
          "spark.driver.extraJavaOptions",
          String.join(
              " ",
              opens,
              cluster.mark(),
              "-Drejoin.it.data=" + Randhie.file().getParent(),
              "-D" + FitDriver.ONCE + "=" + work.file("once")));
      List<String> command = Submission.command(distribution, "spark-submit", settings);
      command.addAll(List.of("--supervise", "--jars", Submission.jars()));
      command.addAll(List.of("--class", FitDriver.class.getName()));
      command.addAll(List.of(Submission.application().toString(), Recipe.COUNT.name(), "3", "20"));
      // An executor is killed, and when all have gone on after that, the driver.
      String kill = Fault.of(2).version(4, 0).kill();
      String heldUp = Fault.of(1).version(HELD_UP, 0).notice().replace("notify", "delay:120s");
      command.addAll(List.of(kill + "|" + heldUp, ""));
      try (Submission application =
          Submission.start(cluster, "supervise", command, Map.of(), () -> outputsOfDrivers(work))) {
        application.await("fired", "1"::equals, LIMIT);
        assertEquals(List.of("2"), application.facts("again"));
        Processes.signal(driver(cluster), "KILL");
        application.awaitEnd(LIMIT);
        application.assertSameModels(2);
        application.assertWentOn(HELD_UP);
      }
    }
  }

  private static long driver(StandaloneCluster cluster) {
    return Processes.marked(cluster.mark()).stream()
        .filter(found -> found.command().stream().anyMatch(word -> word.endsWith(".DriverWrapper")))
        .findFirst()
        .orElseThrow()
        .pid();
  }

  private static List<Path> outputsOfDrivers(WorkDirectory work) {
    try (Stream<Path> all = Files.walk(work.folder("executors"), 2)) {
      List<Path> outputs =
          all.filter(file -> file.endsWith("stdout"))
              .filter(file -> file.getParent().getFileName().toString().startsWith("driver-"))
              .sorted()
              .collect(Collectors.toList());
      for (Path output : outputs) {
        refuseFailed(output.resolveSibling("stderr"));
      }
      return outputs;
    } catch (IOException cannot) {
      throw new UncheckedIOException(cannot);
    }
  }

  /** A driver that fails would be started again and again until the test's limit. */
  private static void refuseFailed(Path errors) throws IOException {
    String said = Files.exists(errors) ? Files.readString(errors) : "";
    int at = said.indexOf("Exception in thread \"main\"");
    if (at >= 0) {
      throw new AssertionError("the driver failed: " + said.substring(at) + " (" + errors + ")");
    }
  }
}
