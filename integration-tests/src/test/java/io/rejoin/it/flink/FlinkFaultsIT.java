package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.it.Deadline;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Whatever meets a TaskManager, the model is that of the undisturbed training. */
@DisplayName("whatever meets a TaskManager, the model is the same, byte for byte")
class FlinkFaultsIT {
  private static final Duration LIMIT = Duration.ofSeconds(90);
  private static final int RANKS = 3;
  private static final int BATCH = 50;
  private static final long[] LENGTHS = {2000, 1900, 1700};
  // Readers wait before this row until Flink has a checkpoint: version 20 comes before, 21 after.
  private static final long GATE = 20 * BATCH;

  private static String undisturbed;

  @Test
  @DisplayName("a TaskManager is killed before an allreduce")
  void before() throws Exception {
    check("before", List.of(0, 1, 0), "1:25:BEFORE:KILL");
  }

  private static synchronized String undisturbed() throws Exception {
    if (undisturbed == null) {
      undisturbed = run("undisturbed", List.of(0, 0, 0)).digest();
    }
    return undisturbed;
  }

  private static void check(String name, List<Integer> attempts, String... faults)
      throws Exception {
    assertEquals(undisturbed(), run(name, attempts, faults).digest());
  }

  private static SplitModel run(String name, List<Integer> attempts, String... faults)
      throws Exception {
    FlinkCluster cluster = Clusters.shared();
    return Deadline.within(
        LIMIT,
        name,
        cluster,
        () -> {
          Path folder = cluster.work().folder(name);
          Path gate = folder.resolve("gate");
          TrainingJob job = new TrainingJob(LENGTHS, folder).faults(List.of(faults));
          for (int split = 0; split < LENGTHS.length; split++) {
            job.source().gate(split, GATE, gate.toString());
          }
          StreamExecutionEnvironment environment = cluster.environment(settings());
          environment.setParallelism(RANKS);
          job.build(environment);
          FlinkJob running = cluster.submit(environment, name);
          running.awaitCheckpoints(1, LIMIT);
          Files.createFile(gate);
          assertEquals("FINISHED", running.awaitEnd(LIMIT), () -> name);
          assertEquals(List.of(), job.notFired(), "faults that have not fired");
          SplitModel model = ModelFile.model(folder);
          assertEquals(List.of(), model.rowsAmiss(LENGTHS), "each row is in the model once");
          assertEquals(attempts, running.attempts(TrainingJob.TRAINER));
          return model;
        });
  }

  private static Map<String, String> settings() {
    Map<String, String> all = new LinkedHashMap<>();
    all.put("execution.checkpointing.interval", "200 ms");
    all.put("rejoin.batch.rows", Integer.toString(BATCH));
    all.put("rejoin.emit.versions", "1");
    all.put("rejoin.tracker.host", "127.0.0.1");
    return all;
  }
}
