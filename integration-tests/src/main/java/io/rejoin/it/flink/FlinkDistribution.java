package io.rejoin.it.flink;

import io.rejoin.it.Leash;
import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A whole distribution, as a user unpacks one: its own scripts start the processes, which become
 * those of the scripts, and {@code bin/flink} is the client.
 */
final class FlinkDistribution implements Installation {
  private final Path home;
  private final WorkDirectory work;
  private final Path leash;

  /**
   * Of a cluster in this folder.
   *
   * @param home where the distribution is; it stays as it is
   * @param libraries are in the cluster's lib/ beside the distribution's
   */
  FlinkDistribution(Path home, WorkDirectory work, List<Path> libraries) throws IOException {
    if (!Files.isExecutable(home.resolve("bin/flink"))) {
      throw new IllegalStateException(
          "expected a Flink distribution in "
              + home
              + "; scripts/flink-distribution.sh fetches it");
    }
    this.home = home.toAbsolutePath();
    this.work = work;
    List<Path> jars = new ArrayList<>(libraries);
    jars.addAll(in(home.resolve("lib")));
    for (Path jar : jars) {
      Path link = work.folder("lib").resolve(jar.getFileName());
      Files.createSymbolicLink(link, jar.toAbsolutePath());
    }
    for (Path setting : in(home.resolve("conf"))) {
      Files.copy(setting, work.folder("conf").resolve(setting.getFileName()));
    }
    leash = work.file("leash.jar");
    Leash.jar(leash);
  }

  private static List<Path> in(Path folder) throws IOException {
    try (Stream<Path> all = Files.list(folder)) {
      return all.collect(Collectors.toList());
    }
  }

  @Override
  public FlinkProcess startJobManager(String name, List<String> arguments) throws IOException {
    return start(name, "jobmanager.sh", arguments);
  }

  @Override
  public FlinkProcess startTaskManager(String name, List<String> arguments) throws IOException {
    return start(name, "taskmanager.sh", arguments);
  }

  private FlinkProcess start(String name, String script, List<String> arguments)
      throws IOException {
    List<String> command = new ArrayList<>(List.of(script, "start-foreground"));
    command.addAll(arguments);
    Path log = work.file(name + ".log");
    ProcessBuilder builder = builder(command, log);
    builder.environment().put("JVM_ARGS", "-XX:TieredStopAtLevel=1 -javaagent:" + leash);
    return new FlinkProcess(name, builder.start(), log);
  }

  private ProcessBuilder builder(List<String> command, Path output) {
    List<String> whole = new ArrayList<>(command);
    whole.set(0, home.resolve("bin").resolve(command.get(0)).toString());
    ProcessBuilder builder = new ProcessBuilder(whole);
    builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
    builder.environment().put("FLINK_CONF_DIR", work.folder("conf").toString());
    builder.environment().put("FLINK_LIB_DIR", work.folder("lib").toString());
    builder.environment().put("FLINK_LOG_DIR", work.folder("log").toString());
    builder.environment().put("FLINK_PID_DIR", work.folder("pid").toString());
    builder.redirectErrorStream(true).redirectOutput(output.toFile());
    return builder;
  }

  /**
   * Runs {@code bin/flink} to its end.
   *
   * @return what it printed
   * @throws AssertionError when its status isn't 0, or it doesn't end within the limit
   */
  String client(List<String> arguments, Duration limit) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("flink"));
    command.addAll(arguments);
    Path output = work.file("client-" + arguments.get(0) + ".log");
    Process client = builder(command, output).start();
    boolean ended = client.waitFor(limit.toNanos(), TimeUnit.NANOSECONDS);
    client.destroyForcibly().waitFor();
    String printed = Files.readString(output);
    if (!ended || client.exitValue() != 0) {
      String how = ended ? "ended with status " + client.exitValue() : "did not end in time";
      throw new AssertionError("bin/flink " + arguments + " " + how + ": " + printed);
    }
    return printed;
  }
}
