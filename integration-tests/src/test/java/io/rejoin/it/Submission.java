package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.spark.RejoinEstimator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import ml.dmlc.xgboost4j.java.Booster;

/**
 * An application that a distribution's {@code spark-submit} or {@code spark-shell} runs, and the
 * facts that it reports ({@link FitDriver#PREFIX}) in files that grow: the client's own output, or
 * that of a driver which the cluster runs.
 */
final class Submission implements AutoCloseable {
  private final Path output;
  private final Process client;
  private final Supplier<List<Path>> reports;

  private Submission(Process client, Path output, Supplier<List<Path>> reports) {
    this.client = client;
    this.output = output;
    this.reports = reports;
  }

  /** The command that runs this program of a distribution with these settings of Spark's. */
  static List<String> command(Path distribution, String program, Map<String, String> settings) {
    List<String> command = new ArrayList<>();
    command.add(distribution.toAbsolutePath().resolve("bin").resolve(program).toString());
    settings.forEach((key, value) -> command.addAll(List.of("--conf", key + "=" + value)));
    return command;
  }

  /** Starts it; what it reports is in its own output, a file of this name. */
  static Submission start(Cluster cluster, String name, List<String> command) throws IOException {
    return start(cluster, name, command, "");
  }

  /** The same for a program that reads this text. */
  static Submission start(Cluster cluster, String name, List<String> command, String input)
      throws IOException {
    Path file = cluster.work().file(name + ".in");
    Files.writeString(file, input);
    Path output = cluster.work().file(name + ".log");
    ProcessBuilder builder = builder(command, output);
    if (!input.isEmpty()) {
      builder.redirectInput(file.toFile());
    }
    return new Submission(builder.start(), output, () -> List.of(output));
  }

  /** Starts it with more in its environment; what it reports is in other files, once there are. */
  static Submission start(
      Cluster cluster,
      String name,
      List<String> command,
      Map<String, String> environment,
      Supplier<List<Path>> reports)
      throws IOException {
    Path output = cluster.work().file(name + ".log");
    ProcessBuilder builder = builder(command, output);
    builder.environment().putAll(environment);
    return new Submission(builder.start(), output, reports);
  }

  private static ProcessBuilder builder(List<String> command, Path output) {
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
    builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
    builder.environment().put("SPARK_LOCAL_IP", "127.0.0.1");
    return builder;
  }

  /** Our jars and XGBoost's, as {@code --jars} has them. */
  static String jars() {
    return Stream.of(Communicator.class, RejoinEstimator.class, Booster.class)
        .map(Submission::jarOf)
        .collect(Collectors.joining(","));
  }

  /** The jar that this class is in. */
  static String jarOf(Class<?> type) {
    return type.getProtectionDomain().getCodeSource().getLocation().getPath();
  }

  /** The jar with {@link FitDriver}. */
  static Path application() throws IOException {
    try (Stream<Path> jars = Files.list(Path.of("integration-tests/build/libs"))) {
      return jars.filter(jar -> jar.toString().endsWith(".jar"))
          .findFirst()
          .orElseThrow()
          .toAbsolutePath();
    }
  }

  /** What it has reported until now. */
  List<String> facts() throws IOException {
    List<String> facts = new ArrayList<>();
    for (Path file : reports.get()) {
      if (Files.exists(file)) {
        for (String line : Files.readString(file).split("\n")) {
          int at = line.indexOf(FitDriver.PREFIX);
          if (at >= 0) {
            facts.add(line.substring(at + FitDriver.PREFIX.length()));
          }
        }
      }
    }
    return facts;
  }

  /** The values of the facts that begin with this word. */
  List<String> facts(String word) throws IOException {
    return values(word, facts());
  }

  private static List<String> values(String word, List<String> facts) {
    return facts.stream()
        .filter(fact -> fact.startsWith(word + " "))
        .map(fact -> fact.substring(word.length() + 1))
        .collect(Collectors.toList());
  }

  /** By rank the process that trains it now. */
  Map<String, Long> processesOfRanks() throws IOException {
    Map<String, Long> ofExecutors = new HashMap<>();
    for (String fact : facts("agent")) {
      ofExecutors.put(fact.split(" ")[0], Long.parseLong(fact.split(" ")[1]));
    }
    Map<String, Long> ofRanks = new HashMap<>();
    for (String fact : facts("joined")) {
      ofRanks.put(fact.split(" ")[0], ofExecutors.get(fact.split(" ")[1]));
    }
    return ofRanks;
  }

  /** The client's processes: its script and its JVM. */
  List<Long> processes() {
    return Stream.concat(Stream.of(client.toHandle()), client.descendants())
        .map(ProcessHandle::pid)
        .collect(Collectors.toList());
  }

  /** Waits for the first fact that begins with this word and is as wanted; returns its value. */
  String await(String word, Predicate<String> wanted, Duration limit) throws Exception {
    long deadline = System.nanoTime() + limit.toNanos();
    for (; ; ) {
      // Before the look at what it reported: then that is all.
      boolean ended = !client.isAlive();
      Optional<String> found = facts(word).stream().filter(wanted).findFirst();
      if (found.isPresent()) {
        return found.get();
      }
      if (ended || System.nanoTime() > deadline) {
        throw new AssertionError(
            "the application"
                + (ended ? " ended" : " is late")
                + "; wanted "
                + word
                + ", it reported "
                + facts()
                + "; "
                + output);
      }
      TimeUnit.MILLISECONDS.sleep(100); // Between two looks; the deadline decides, not this.
    }
  }

  /** Waits for its end, which must be a good one. */
  void awaitEnd(Duration limit) throws Exception {
    boolean ended = client.waitFor(limit.toNanos(), TimeUnit.NANOSECONDS);
    if (!ended || client.exitValue() != 0) {
      throw new AssertionError(
          (ended ? "it failed" : "it is late") + "; it reported " + facts() + "; " + output);
    }
  }

  /**
   * Two drivers have run, one after the other; the second one went on from about that round, not
   * from the first one, and its first training read nothing of a shuffle, as the first one's did.
   */
  void assertWentOn(int round) throws IOException {
    List<String> facts = facts();
    List<String> applications = facts("application");
    assertEquals(2, applications.size(), () -> "applications: " + applications);
    int second = facts.lastIndexOf("application " + applications.get(1));
    List<String> later = facts.subList(second, facts.size());
    String first = values("round", later).get(0);
    assertTrue(Integer.parseInt(first) >= round - 4, () -> "it began at round " + first);
    List<String> before = values("shuffle", facts.subList(0, second));
    assertTrue(before.stream().anyMatch(bytes -> Long.parseLong(bytes) > 0), facts::toString);
    int model = later.indexOf("model " + values("model", later).get(0));
    assertEquals(List.of(), values("shuffle", later.subList(0, model)), facts::toString);
  }

  /** It has trained so many models, and they are the same. */
  void assertSameModels(int trainings) throws IOException {
    List<String> models = facts("model");
    assertEquals(trainings, models.size(), () -> "models: " + models);
    assertEquals(1, Set.copyOf(models).size(), () -> "models: " + models);
  }

  @Override
  public void close() {
    // A client's JVM is a child of its script.
    client.descendants().forEach(ProcessHandle::destroyForcibly);
    client.destroyForcibly();
  }
}
