package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.it.Deadline;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What a user types, on a distribution as it is unpacked. */
@DisplayName("a Flink distribution")
class FlinkDistributionIT {
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final Path HOME = Path.of("build/flink-2.3.0");
  private static final Path EXAMPLE = Path.of("examples/flink/target/train-with-rejoin-1.jar");
  private static final long[] LENGTHS = {4000, 3900, 3800};

  /** Readers wait before this row of their splits. */
  private static final long GATE = 1000;

  private static FlinkCluster cluster;

  @BeforeAll
  static void start() {
    cluster = FlinkCluster.named("distribution").taskManagers(3).distribution(HOME).start();
  }

  @AfterAll
  static void stop() {
    cluster.close();
  }

  @Test
  @DisplayName("the example that users copy trains, and predicts by its models in the same job")
  void the_example_trains_and_predicts() throws Exception {
    Deadline.within(LIMIT, "jobs of examples/flink", cluster, () -> runExamples());
  }

  private static Void runExamples() throws Exception {
    assertTrue(Files.exists(EXAMPLE), EXAMPLE + " is made by scripts/examples.sh");
    Path rows = cluster.work().folder("rows");
    long count = DemoData.writeLabeled(rows, LENGTHS.length);
    List<String> models = runExample("Train", rows);
    List<Integer> versions =
        models.stream()
            .map(model -> Integer.valueOf(model.split(" ")[0]))
            .collect(Collectors.toList());
    // A version has at most 1000 rows of each rank.
    assertTrue(Collections.max(versions) >= count / LENGTHS.length / 1000, versions.toString());
    assertEquals(2 + DemoData.FEATURES, models.get(0).split(" ").length, models.get(0));
    List<String> predictions = runExample("TrainAndPredict", rows);
    assertEquals(count, predictions.size(), "a prediction for each row");
    return null;
  }

  private static List<String> runExample(String name, Path rows) throws Exception {
    Path out = cluster.work().file(name);
    List<String> options = new ArrayList<>(List.of("-p", Integer.toString(LENGTHS.length)));
    options.addAll(List.of("-c", "example." + name, EXAMPLE.toString()));
    options.addAll(List.of(rows.toString(), out.toString()));
    cluster.client(LIMIT, "run", options);
    List<String> lines = new ArrayList<>();
    try (Stream<Path> files = Files.walk(out)) {
      for (Path file : files.filter(Files::isRegularFile).sorted().collect(Collectors.toList())) {
        assertTrue(file.getFileName().toString().startsWith("part-"), file + " isn't finished");
        lines.addAll(Files.readAllLines(file));
      }
    }
    return lines;
  }

  @Test
  @DisplayName("`flink run`, `flink stop --savepointPath` and `flink run -s` give the same model")
  void a_job_is_stopped_and_goes_on() throws Exception {
    Deadline.within(
        LIMIT,
        "jobs by bin/flink",
        cluster,
        () -> {
          assertTrue(cluster.rest().page("/").contains("<title>Apache Flink"), "the web pages");
          return stopAndGoOn();
        });
  }

  private static Void stopAndGoOn() throws Exception {
    FlinkJob whole = submit("whole", cluster.work().root(), List.of());
    assertEquals("FINISHED", whole.awaitEnd(LIMIT));
    FlinkJob first = submit("first", cluster.work().file("never"), List.of());
    first.awaitCheckpoints(2, LIMIT);
    Path savepoints = cluster.work().folder("savepoints");
    String stopped =
        cluster.client(
            LIMIT, "stop", List.of("--savepointPath", savepoints.toString(), first.id()));
    assertEquals("FINISHED", first.awaitEnd(LIMIT));
    String savepoint = group(stopped, "Savepoint completed\\. Path: (\\S+)");
    FlinkJob second = submit("second", cluster.work().root(), List.of("-s", savepoint));
    assertEquals("FINISHED", second.awaitEnd(LIMIT));
    SplitModel model = ModelFile.model(cluster.work().file("second"));
    assertEquals(List.of(), model.rowsAmiss(LENGTHS), "each row is in the model once");
    assertEquals(ModelFile.model(cluster.work().file("whole")).digest(), model.digest());
    return null;
  }

  @Test
  @DisplayName("`flink stop --drain` ends a training with the model of all that was read")
  void a_drained_job_ends_with_its_model() throws Exception {
    Deadline.within(LIMIT, "a job that is drained", cluster, () -> drain());
  }

  private static Void drain() throws Exception {
    Path folder = cluster.work().file("drained");
    FlinkJob job =
        submit("drained", cluster.work().file("never"), List.of("-Drejoin.emit.versions=1"));
    // All readers wait before this row, and batches of a rank have 50.
    int versions = (int) GATE / 50;
    Waiting.untilTrue(
        "all that was read is trained",
        LIMIT,
        () -> ModelFile.lines(folder).stream().anyMatch(line -> line.version() >= versions));
    Path savepoints = cluster.work().folder("savepoints");
    cluster.client(
        LIMIT, "stop", List.of("--drain", "--savepointPath", savepoints.toString(), job.id()));
    assertEquals("FINISHED", job.awaitEnd(LIMIT));
    long[] read = LongStream.generate(() -> GATE).limit(LENGTHS.length).toArray();
    assertEquals(List.of(), ModelFile.model(folder).rowsAmiss(read), "each row is in it once");
    return null;
  }

  private static FlinkJob submit(String name, Path gate, List<String> options) throws Exception {
    List<Path> jars = FlinkJars.ofJob();
    List<String> all = new ArrayList<>(List.of("-d", "-p", Integer.toString(LENGTHS.length)));
    all.add("-Dexecution.checkpointing.interval=200ms");
    all.add("-Drejoin.batch.rows=50");
    all.addAll(options);
    jars.stream().skip(1).forEach(jar -> all.addAll(List.of("-C", jar.toUri().toString())));
    all.addAll(List.of("-c", TrainingJob.class.getName(), jars.get(0).toString()));
    all.add("folder=" + cluster.work().file(name));
    all.add(
        "lengths="
            + Arrays.stream(LENGTHS).mapToObj(Long::toString).collect(Collectors.joining(",")));
    all.addAll(List.of("row=" + GATE, "gate=" + gate));
    return cluster.job(group(cluster.client(LIMIT, "run", all), "JobID ([0-9a-f]{32})"));
  }

  private static String group(String text, String pattern) {
    Matcher match = Pattern.compile(pattern).matcher(text);
    assertTrue(match.find(), () -> "expected `" + pattern + "` in: " + text);
    return match.group(1);
  }
}
