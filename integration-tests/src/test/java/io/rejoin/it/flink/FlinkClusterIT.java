package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.it.Deadline;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What all tests on Flink stand on: a cluster, and a job without any training. */
@DisplayName("the Flink cluster of the tests")
class FlinkClusterIT {
  private static final Duration LIMIT = Duration.ofSeconds(60);
  private static final long[] LENGTHS = {300, 200, 250, 100};

  @Test
  @DisplayName("with forward edges alone, a killed TaskManager costs its subtask alone an attempt")
  void only_the_struck_subtask_restarts() throws Exception {
    FlinkCluster cluster = Clusters.shared();
    Deadline.within(
        LIMIT,
        "a job without training",
        cluster,
        () -> {
          Path output = cluster.work().folder("rows");
          Path gate = cluster.work().file("gate");
          FlinkJob job = cluster.submit(copying(cluster, output, gate), CopyJob.NAME);
          job.awaitRunning(LIMIT);
          job.awaitCheckpoints(2, LIMIT);
          FlinkProcess disturbed = cluster.taskManager(job.taskManagerOf(CopyJob.NAME, 1));
          disturbed.signal("KILL");
          Files.createFile(gate);
          assertEquals("FINISHED", job.awaitEnd(LIMIT), () -> "see " + cluster.work().root());
          assertEquals(List.of(0, 1, 0), job.attempts(CopyJob.NAME));
          assertEquals(1, job.restarts());
          assertTrue(
              job.failures().get(0).text().contains(disturbed.name()),
              "Flink names the dead one: " + job.failures());
          assertEquals(allRows(), linesBelow(output), "each row once");
          return null;
        });
  }

  /** Each reader stops before a row until the gate is there; so all live when one is killed. */
  private static StreamExecutionEnvironment copying(FlinkCluster cluster, Path output, Path gate) {
    StreamExecutionEnvironment environment =
        cluster.environment(Map.of("execution.checkpointing.interval", "300 ms"));
    environment.setParallelism(3);
    FixedSplitsSource source = new FixedSplitsSource(LENGTHS, 2);
    for (int reader = 0; reader < 3; reader++) {
      source.gate(reader, 100, gate.toString());
    }
    CopyJob.build(environment, source, output);
    return environment;
  }

  private static List<String> allRows() {
    List<String> rows = new ArrayList<>();
    for (int split = 0; split < LENGTHS.length; split++) {
      for (long number = 0; number < LENGTHS[split]; number++) {
        rows.add(split + ":" + number);
      }
    }
    return rows.stream().sorted().collect(Collectors.toList());
  }

  private static List<String> linesBelow(Path folder) throws IOException {
    List<String> lines = new ArrayList<>();
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path file : all.filter(Files::isRegularFile).collect(Collectors.toList())) {
        // What begins with a dot isn't committed.
        if (!file.getFileName().toString().startsWith(".")) {
          lines.addAll(Files.readAllLines(file));
        }
      }
    }
    return lines.stream().sorted().collect(Collectors.toList());
  }
}
