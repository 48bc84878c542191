package io.rejoin.it;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** A {@link YarnCluster} and the applications that tests submit to it by a Spark distribution. */
final class YarnApplications implements AutoCloseable {
  static final Duration LIMIT = Duration.ofSeconds(300);

  private final Path distribution;
  private final YarnCluster yarn;
  private int submitted;

  private YarnApplications(Path distribution) {
    this.distribution = distribution;
    this.yarn = YarnCluster.start("yarn");
  }

  static YarnApplications start() {
    Sessions.free();
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    return new YarnApplications(Path.of("build/spark-" + version));
  }

  YarnCluster cluster() {
    return yarn;
  }

  /** What an application of four executors must have, in the queue for those under test. */
  Map<String, String> settings() {
    Map<String, String> settings = yarn.applicationSettings(distribution);
    settings.put("spark.executor.instances", "4");
    settings.put("spark.yarn.queue", YarnSettings.QUEUE);
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    return settings;
  }

  /** Submits {@link FitDriver} with three workers, in deploy mode client or cluster. */
  Submission submit(String mode, Map<String, String> settings, String... training)
      throws IOException {
    return submit(mode, settings, 3, training);
  }

  /** The same with as many workers. */
  Submission submit(String mode, Map<String, String> settings, int workers, String... training)
      throws IOException {
    String name = mode + submitted++;
    settings.put("spark.submit.deployMode", mode);
    List<String> command = Submission.command(distribution, "spark-submit", settings);
    command.addAll(List.of("--jars", Submission.jars(), "--class", FitDriver.class.getName()));
    command.addAll(List.of(Submission.application().toString(), Recipe.BINARY.name()));
    command.add(Integer.toString(workers));
    command.addAll(List.of(training));
    List<Path> others = yarn.containerLogs("stdout");
    Path output = yarn.work().file(name + ".log");
    Supplier<List<Path>> reports =
        () -> {
          List<Path> files = new ArrayList<>(yarn.containerLogs("stdout"));
          files.removeAll(others);
          return mode.equals("client") ? List.of(output) : files;
        };
    Map<String, String> environment =
        Map.of(
            "HADOOP_CONF_DIR",
            yarn.configuration().toString(),
            // So that the client ends with this process.
            "SPARK_SUBMIT_OPTS",
            "-javaagent:" + yarn.leash());
    return Submission.start(yarn, name, command, environment, reports);
  }

  @Override
  public void close() {
    yarn.close();
  }
}
