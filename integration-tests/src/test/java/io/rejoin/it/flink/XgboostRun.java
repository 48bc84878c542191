package io.rejoin.it.flink;

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

/** One training with XGBoost on a cluster: what it is like first, then {@link #model}. */
final class XgboostRun {
  static final Duration LIMIT = Duration.ofSeconds(120);
  static final long[] LENGTHS = {3000, 2900, 2700};
  static final int ROUNDS = 20;

  private static final Map<Boolean, byte[]> UNDISTURBED = new ConcurrentHashMap<>();

  private final String name;
  private final FlinkCluster cluster;
  private final Path folder;
  private final XgboostJob training;
  private final int loggedBefore;
  private final Map<String, String> settings = new LinkedHashMap<>();
  private boolean isBatch;
  private Faults faults = Faults.none();
  private Step halfWay = run -> {};
  private Step later = run -> {};
  private FlinkJob job;

  /** What a test does while the job runs. */
  interface Step {
    /** Does it. */
    void run(XgboostRun run) throws Exception;
  }

  /** On the cluster that has Rejoin in its {@code lib/}, in a folder of this name. */
  XgboostRun(String name) throws Exception {
    this(Clusters.withRejoinInLib(), name);
  }

  /** On this cluster. */
  XgboostRun(FlinkCluster cluster, String name) throws IOException {
    this.cluster = cluster;
    this.name = name;
    folder = cluster.work().folder(name);
    training = new XgboostJob(LENGTHS, folder, ROUNDS);
    loggedBefore = cluster.jobManager().logged().length();
  }

  /** The model of the undisturbed training, in streaming or in batch behind an exchange. */
  static synchronized byte[] undisturbed(boolean isBatch) throws Exception {
    if (!UNDISTURBED.containsKey(isBatch)) {
      XgboostRun run = new XgboostRun("xgboost-undisturbed-" + (isBatch ? "batch" : "streaming"));
      UNDISTURBED.put(isBatch, (isBatch ? run.batch() : run).model());
    }
    return UNDISTURBED.get(isBatch);
  }

  /** Trains this; a classification if nothing is said. */
  XgboostRun kind(XgboostKind what) {
    training.kind(what);
    return this;
  }

  /** With these faults. */
  XgboostRun faults(Faults more) {
    faults = more;
    return this;
  }

  /** In BATCH, behind an exchange. */
  XgboostRun batch() {
    isBatch = true;
    training.exchanging();
    return this;
  }

  /** The first snapshot behind the model fails. */
  XgboostRun failingAtItsEnd() {
    training.failingAtItsEnd();
    return this;
  }

  /** Flink can't stop the job with a savepoint at the end of its inputs: why. */
  String drainInVain() throws Exception {
    return job.drainInVain(cluster.work().folder("savepoints"), LIMIT);
  }

  /** With one of Rejoin's settings. */
  XgboostRun setting(String key, String value) {
    settings.put(key, value);
    return this;
  }

  /** Waits until the JobManager has logged this of it. */
  void awaitLogged(String text) throws Exception {
    Waiting.untilTrue("the JobManager logs `" + text + "`", LIMIT, () -> logged().contains(text));
  }

  private String logged() throws IOException {
    return cluster.jobManager().logged().substring(loggedBefore);
  }

  /** With this while readers wait half way. */
  XgboostRun halfWay(Step step) {
    halfWay = step;
    return this;
  }

  /** With this when readers go on. */
  XgboostRun later(Step step) {
    later = step;
    return this;
  }

  /** The process in which the newest attempt of a rank's task runs. */
  FlinkProcess processOf(int rank) throws IOException {
    return cluster.taskManager(job.taskManagerOf(XgboostJob.TRAINER, rank));
  }

  /** Waits until Flink has made a checkpoint from now on. */
  void awaitOneMoreCheckpoint() throws Exception {
    job.awaitCheckpoints(job.checkpoints().completed() + 1, LIMIT);
  }

  /** Waits until the JobManager has heard that a fault has fired. */
  void awaitFired() throws Exception {
    awaitLogged("FaultFired");
  }

  /** Waits until a fault has stopped a TaskManager, which is the result. */
  FlinkProcess awaitStopped() throws Exception {
    return Waiting.until("a TaskManager is stopped", LIMIT, this::stopped);
  }

  /** Wakes every TaskManager that a fault stops, until the job ends. */
  void wakeUntilTheEnd() throws Exception {
    Waiting.untilTrue(
        "job " + job.id() + " ends",
        LIMIT,
        () -> {
          FlinkProcess stopped = stopped();
          if (stopped != null) {
            stopped.signal("CONT");
          }
          return job.hasEnded();
        });
  }

  private FlinkProcess stopped() throws IOException {
    for (FlinkProcess process : cluster.taskManagers()) {
      if (process.isStopped()) {
        return process;
      }
    }
    return null;
  }

  /** The number of the newest attempt of each rank. */
  List<Integer> attempts() throws IOException {
    return job.attempts(XgboostJob.TRAINER);
  }

  /** Trains to the end, and gives the model's bytes. */
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
    StreamExecutionEnvironment environment = cluster.environment(settings());
    environment.setParallelism(LENGTHS.length);
    training.build(environment);
    job = cluster.submit(environment, name);
    halfWay.run(this);
    Files.createFile(training.gate());
    later.run(this);
    String end = job.awaitEnd(LIMIT);
    assertEquals("FINISHED", end, () -> name + ": " + failures());
    return Files.readAllBytes(training.model());
  }

  private Map<String, String> settings() {
    Map<String, String> all = new LinkedHashMap<>();
    if (isBatch) {
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
    all.putAll(settings);
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
