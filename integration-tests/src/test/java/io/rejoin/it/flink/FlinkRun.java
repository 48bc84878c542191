package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.it.Deadline;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * One training on a cluster: settings and faults first, then {@link #train}. Half way its source
 * waits until Flink has a checkpoint, so that what is struck afterwards goes on from one.
 */
final class FlinkRun {
  static final Duration LIMIT = Duration.ofSeconds(90);

  /** Rows of a rank in a batch. */
  static final int BATCH = 50;

  /** So many versions are complete when the source waits, and more are to come. */
  static final int HALF_WAY = 20;

  static final long[] LENGTHS = {2000, 1900, 1700};

  private final FlinkCluster cluster;
  private final String name;
  private final Path folder;
  private final long[] lengths;
  private final TrainingJob training;
  private final Map<String, String> settings = new LinkedHashMap<>();
  private final FlinkProcess coordinator;
  private final int loggedBefore;
  private int ranks = 3;
  private Step halfWay = () -> job().awaitCheckpoints(1, LIMIT);
  private Step later = () -> {};
  private FlinkJob job;

  /** What a test does while the job runs. */
  interface Step {
    /** Does it. */
    void run() throws Exception;
  }

  /** On this cluster, in a folder of this name. */
  FlinkRun(FlinkCluster cluster, String name) throws IOException {
    this(cluster, name, LENGTHS);
  }

  /** The same on splits of these lengths. */
  FlinkRun(FlinkCluster cluster, String name, long[] lengths) throws IOException {
    this.cluster = cluster;
    this.lengths = lengths;
    this.name = name;
    folder = cluster.work().folder(name.replaceAll("[^A-Za-z0-9]+", "-"));
    training = new TrainingJob(lengths, folder);
    coordinator = cluster.jobManager();
    loggedBefore = coordinator.logged().length();
    settings.put("execution.checkpointing.interval", "200 ms");
    settings.put("rejoin.batch.rows", Integer.toString(BATCH));
    settings.put("rejoin.emit.versions", "1");
    settings.put("rejoin.tracker.host", "127.0.0.1");
  }

  /** With these faults, as {@link JobFault#parse} reads them. */
  FlinkRun faults(String... texts) {
    training.faults(List.of(texts));
    return this;
  }

  /** With so many ranks; three if nothing is said. */
  FlinkRun ranks(int count) {
    ranks = count;
    return this;
  }

  /** With rows that come by {@code Rejoin.source}. */
  FlinkRun bySplit() {
    training.bySplit();
    return this;
  }

  /** With a source that breaks the rule that a reader gives the same rows in the same order. */
  FlinkRun withBadSource() {
    training.source().breaksItsRule(folder);
    return this;
  }

  /** With a source that breaks the rule that a split has one owner. */
  FlinkRun withSplitsThatMove() {
    training.source().movesSplits();
    return this;
  }

  /** Readers are given their splits by {@link #giveSplits} alone. */
  FlinkRun withSplitsThatAreGivenLate() {
    training.source().givesSplitsAfter(folder.resolve("splits"));
    return this;
  }

  /** Readers are given their splits. */
  void giveSplits() throws IOException {
    Files.createFile(folder.resolve("splits"));
  }

  /** A split's reader waits for ever before this row. */
  FlinkRun heldBefore(int split, long row) {
    training.source().gate(split, row, folder.resolve("never").toString());
    return this;
  }

  /** The source waits for more when all its rows are read. */
  FlinkRun withoutEnd() {
    training.source().unbounded();
    return this;
  }

  /** Where the last model goes. */
  Path model() {
    return folder.resolve("model");
  }

  /** With an event log, whose lines are {@link #events}. */
  FlinkRun withEventLog() throws IOException {
    return setting("rejoin.events", Files.createDirectories(eventLog()).toString());
  }

  private Path eventLog() {
    return folder.resolve("events");
  }

  /** What its only gang's event log has until now. */
  List<String> events() throws IOException {
    try (Stream<Path> files = Files.list(eventLog())) {
      List<Path> all = files.toList();
      assertEquals(1, all.size(), () -> "event logs: " + all);
      return Files.readAllLines(all.get(0));
    }
  }

  /** Flink makes no checkpoints. */
  FlinkRun withoutCheckpoints() {
    settings.remove("execution.checkpointing.interval");
    return this;
  }

  /** With one of Flink's settings, or Rejoin's. */
  FlinkRun setting(String key, String value) {
    settings.put(key, value);
    return this;
  }

  /** It goes on from this savepoint or checkpoint. */
  FlinkRun from(String address) {
    return setting("execution.state-recovery.path", address);
  }

  /** Stops the job with a savepoint, whose address is the result. */
  String stopWithSavepoint() throws Exception {
    String savepoint = job.stopWithSavepoint(cluster.work().folder("savepoints"), LIMIT);
    assertEquals("FINISHED", job.awaitEnd(LIMIT));
    return savepoint;
  }

  /** The first snapshot behind the last model fails. */
  FlinkRun failingAtItsEnd() {
    training.failingAtItsEnd();
    return this;
  }

  /** Flink can't stop the job with a savepoint at the end of its inputs: why. */
  String drainInVain() throws Exception {
    return job.drainInVain(cluster.work().folder("savepoints"), LIMIT);
  }

  /** The source waits half way for the end of this step instead of for a checkpoint. */
  FlinkRun halfWay(Step step) {
    halfWay = step;
    return this;
  }

  /** This is done when the source goes on. */
  FlinkRun later(Step step) {
    later = step;
    return this;
  }

  FlinkCluster cluster() {
    return cluster;
  }

  /** It, once it was submitted. */
  FlinkJob job() {
    return job;
  }

  /** The process in which the newest attempt of a rank's task runs. */
  FlinkProcess processOf(int rank) throws IOException {
    return cluster.taskManager(job.taskManagerOf(TrainingJob.TRAINER, rank));
  }

  /** Waits until all faults of {@link #faults} have fired. */
  void awaitFired() throws Exception {
    Waiting.untilTrue("all faults have fired", LIMIT, () -> notFired().isEmpty());
  }

  private List<JobFault> notFired() {
    return training.faults().stream().filter(fault -> !fault.hasFired()).toList();
  }

  /** Whoever is held by a fault goes on. */
  void release() throws IOException {
    for (JobFault fault : training.faults()) {
      if (fault.action() == JobFault.Action.HOLD) {
        Files.createFile(fault.release());
      }
    }
  }

  /** Where the newest complete checkpoint of this job is; also when its cluster is dead. */
  String newestCheckpoint() throws IOException {
    Path all = cluster.work().folder("checkpoints").resolve(job.id());
    try (Stream<Path> folders = Files.list(all)) {
      return folders
          .filter(one -> Files.exists(one.resolve("_metadata")))
          .max(Comparator.comparingInt(FlinkRun::numberOf))
          .orElseThrow(() -> new AssertionError("no complete checkpoint in " + all))
          .toUri()
          .toString();
    }
  }

  private static int numberOf(Path checkpoint) {
    return Integer.parseInt(checkpoint.getFileName().toString().replaceAll("\\D", ""));
  }

  /** Waits until exactly so many subtasks run. */
  void awaitSubtasks(int count) throws Exception {
    Waiting.untilTrue(count + " subtasks run", LIMIT, () -> job.running() == count);
  }

  /** Waits until Flink has made so many checkpoints from now on. */
  void awaitMoreCheckpoints(int count) throws Exception {
    job.awaitCheckpoints(job.checkpoints().completed() + count, LIMIT);
  }

  /** Waits until the JobManager logs this of it. */
  void awaitCoordinator(String pattern) throws Exception {
    Pattern wanted = Pattern.compile(pattern);
    Waiting.untilTrue(
        "the JobManager logs `" + pattern + "`", LIMIT, () -> wanted.matcher(logged()).find());
  }

  /** What the newest JobManager has logged since this run was made. */
  private String logged() throws IOException {
    FlinkProcess newest = cluster.jobManager();
    return newest.logged().substring(newest == coordinator ? loggedBefore : 0);
  }

  /** Trains to the end, and gives the model, which has to have each row once. */
  SplitModel train() throws Exception {
    return within(this::run);
  }

  /** Trains until the end of this step; the source waits half way, for ever. */
  void whileItRuns(Step step) throws Exception {
    within(
        () -> {
          submit();
          step.run();
          return null;
        });
  }

  /** Trains until the job fails, and gives why. */
  String trainInVain() throws Exception {
    return within(
        () -> {
          submit();
          halfWay.run();
          Files.createFile(gate());
          assertEquals("FAILED", job.awaitEnd(LIMIT));
          return failures();
        });
  }

  private <T> T within(Callable<T> work) throws Exception {
    try {
      return Deadline.within(LIMIT, name, cluster, work);
    } catch (Exception | AssertionError failed) {
      // Those who come next want its slots.
      if (job != null && !job.hasEnded()) {
        job.cancel();
      }
      throw failed;
    }
  }

  private Path gate() {
    return folder.resolve("gate");
  }

  private void submit() throws Exception {
    training.gate(HALF_WAY * BATCH, gate());
    StreamExecutionEnvironment environment = cluster.environment(settings);
    environment.setParallelism(ranks);
    training.build(environment);
    job = cluster.submit(environment, name);
  }

  private SplitModel run() throws Exception {
    submit();
    halfWay.run();
    Files.createFile(gate());
    later.run();
    String end = job.awaitEnd(LIMIT);
    assertEquals("FINISHED", end, () -> name + ": " + failures());
    assertEquals(List.of(), notFired(), "faults that have not fired");
    SplitModel model = ModelFile.model(folder);
    assertEquals(List.of(), model.rowsAmiss(lengths), "each row is in the model once");
    checkModelsDownstream(model);
    return model;
  }

  /** Versions may come again after a recovery, with equal bytes; an attempt never goes back. */
  private void checkModelsDownstream(SplitModel last) throws IOException {
    Map<Integer, String> digests = new HashMap<>();
    Map<String, Integer> newest = new HashMap<>();
    List<ModelFile.Line> lines = ModelFile.lines(folder);
    for (ModelFile.Line line : lines) {
      String before = digests.putIfAbsent(line.version(), line.digest());
      assertTrue(before == null || before.equals(line.digest()), () -> "two models: " + lines);
      int of = newest.getOrDefault(line.attempt(), -1);
      assertTrue(of <= line.version(), () -> "a version after a later one: " + lines);
      newest.put(line.attempt(), line.version());
    }
    assertEquals(last.digest(), lines.get(lines.size() - 1).digest(), "the last model");
  }

  /** How many gangs this run has had in the newest JobManager. */
  int gangs() throws IOException {
    return (int) Pattern.compile("gang \\d+ begins").matcher(logged()).results().count();
  }

  private String failures() {
    try {
      return job.failures().toString();
    } catch (IOException cannot) {
      return cannot.toString();
    }
  }
}
