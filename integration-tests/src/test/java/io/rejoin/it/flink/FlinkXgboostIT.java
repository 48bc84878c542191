package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.Faults;
import io.rejoin.it.Deadline;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** XGBoost in Flink, unmodified, while TaskManagers die. */
@DisplayName("XGBoost trains the same model in Flink, byte for byte, whatever meets a TaskManager")
class FlinkXgboostIT {
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final long[] LENGTHS = {3000, 2900, 2700};
  private static final int ROUNDS = 20;
  private static final Map<Boolean, byte[]> UNDISTURBED = new ConcurrentHashMap<>();

  @Test
  @DisplayName("a TaskManager is killed in the middle of training")
  void training() throws Exception {
    Faults faults = Faults.none().and(1, 0, "version:9:0", "kill");
    check("xgboost-training", List.of(0, 1, 0), faults);
  }

  @Test
  @DisplayName("the TaskManager of rank 0 is killed, and the one that it comes back in, too")
  void rank_zero() throws Exception {
    Faults faults =
        Faults.none().and(0, 0, "version:5:0", "kill").and(0, 1, "version:11:0", "kill");
    check("xgboost-zero", List.of(2, 0, 0), faults);
  }

  @Test
  @DisplayName("a TaskManager is killed before the first round, and another one at the end")
  void boot_and_end() throws Exception {
    Faults faults = Faults.none().and(2, 0, "boot:0", "kill").and(1, 0, "finishing", "kill");
    check("xgboost-ends", List.of(0, 1, 1), faults);
  }

  @Test
  @DisplayName("a TaskManager is killed that has half of its rows, all of them in a checkpoint")
  void input() throws Exception {
    Run run = new Run("xgboost-input", false, Faults.none());
    run.halfWay =
        job -> {
          job.awaitCheckpoints(job.checkpoints().completed() + 1, LIMIT);
          run.cluster.taskManager(job.taskManagerOf(XgboostJob.TRAINER, 1)).signal("KILL");
        };
    assertArrayEquals(undisturbed(false), run.model());
    assertEquals(List.of(0, 1, 0), run.attempts);
  }

  @Test
  @DisplayName("in batch, behind an exchange whose data die with a TaskManager")
  void batch() throws Exception {
    Faults faults = Faults.none().and(1, 0, "version:9:0", "kill");
    Run run = new Run("xgboost-batch", true, faults);
    assertArrayEquals(undisturbed(true), run.model());
  }

  private static void check(String name, List<Integer> attempts, Faults faults) throws Exception {
    Run run = new Run(name, false, faults);
    assertArrayEquals(undisturbed(false), run.model());
    assertEquals(attempts, run.attempts);
  }

  private static synchronized byte[] undisturbed(boolean batch) throws Exception {
    if (!UNDISTURBED.containsKey(batch)) {
      String name = "xgboost-undisturbed-" + (batch ? "batch" : "streaming");
      UNDISTURBED.put(batch, new Run(name, batch, Faults.none()).model());
    }
    return UNDISTURBED.get(batch);
  }

  /** What a test does when readers wait half way. */
  private interface HalfWay {
    void meet(FlinkJob job) throws Exception;
  }

  /** One training. */
  private static final class Run {
    private final String name;
    private final boolean batch;
    private final Faults faults;
    private final FlinkCluster cluster;
    private HalfWay halfWay = job -> {};
    private FlinkJob job;
    private List<Integer> attempts;

    Run(String name, boolean batch, Faults faults) throws Exception {
      this.name = name;
      this.batch = batch;
      this.faults = faults;
      cluster = Clusters.shared();
    }

    byte[] model() throws Exception {
      try {
        return Deadline.within(LIMIT, name, cluster, this::train);
      } catch (Exception | AssertionError failed) {
        // Those who come next want its slots.
        if (job != null && !job.hasEnded()) {
          job.cancel();
        }
        throw failed;
      }
    }

    private byte[] train() throws Exception {
      Path folder = cluster.work().folder(name);
      XgboostJob training = new XgboostJob(LENGTHS, folder, ROUNDS);
      if (batch) {
        training.exchanging();
      }
      StreamExecutionEnvironment environment = cluster.environment(settings());
      environment.setParallelism(LENGTHS.length);
      training.build(environment);
      job = cluster.submit(environment, name);
      halfWay.meet(job);
      Files.createFile(training.gate());
      String end = job.awaitEnd(LIMIT);
      assertEquals("FINISHED", end, () -> name + ": " + failures());
      attempts = job.attempts(XgboostJob.TRAINER);
      return Files.readAllBytes(training.model());
    }

    private Map<String, String> settings() {
      Map<String, String> all = new LinkedHashMap<>();
      if (batch) {
        all.put("execution.runtime-mode", "BATCH");
      } else {
        all.put("execution.checkpointing.interval", "200 ms");
      }
      all.put("restart-strategy.type", "fixed-delay");
      all.put("restart-strategy.fixed-delay.attempts", "10");
      all.put("restart-strategy.fixed-delay.delay", "100 ms");
      all.put("rejoin.checkpoint.rounds", "1");
      all.put("rejoin.tracker.host", "127.0.0.1");
      all.put("rejoin.faults", faults.toString());
      return all;
    }

    private String failures() {
      try {
        return job.failures().toString();
      } catch (IOException cannot) {
        return cannot.toString();
      }
    }
  }
}
