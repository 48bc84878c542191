package io.rejoin.it.flink;

import io.rejoin.Communicator;
import io.rejoin.flink.TrainedModel;
import io.rejoin.it.JavaProcess;
import io.rejoin.it.Leash;
import io.rejoin.it.WorkDirectory;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The jars of our own class path: Flink's for the cluster's processes, ours for each job. */
final class FlinkJars implements Installation {
  // They live for seconds: an optimising compiler would never pay.
  private static final String ONE_TIER = "-XX:TieredStopAtLevel=1";
  private static final String LOG_SETTINGS = "rejoin-it-log4j2.properties";

  private final WorkDirectory work;
  private final Path settings;
  private final String classPath;
  private final boolean measured;

  /**
   * Of a cluster in this folder.
   *
   * @param libraries are beside Flink's jars, as if in its lib/
   * @param measured whether its processes optimise what they run, and have memory for it
   */
  FlinkJars(WorkDirectory work, List<Path> libraries, boolean measured) throws IOException {
    this.work = work;
    this.measured = measured;
    settings = work.folder("conf");
    Files.writeString(settings.resolve("config.yaml"), "");
    try (InputStream log = FlinkJars.class.getClassLoader().getResourceAsStream(LOG_SETTINGS)) {
      Files.copy(log, settings.resolve(LOG_SETTINGS));
    }
    Path leash = settings.resolve("leash.jar");
    Leash.jar(leash);
    List<Path> ours = ofJob();
    classPath =
        Stream.of(Stream.of(leash), libraries.stream(), jars().filter(jar -> !ours.contains(jar)))
            .flatMap(jars -> jars)
            .map(Path::toString)
            .collect(Collectors.joining(File.pathSeparator));
  }

  private static Stream<Path> jars() {
    return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(entry -> entry.endsWith(".jar"))
        .map(entry -> Path.of(entry).toAbsolutePath());
  }

  /** What a job takes along: Rejoin's jars, and the one that this class is in. */
  static List<Path> ofJob() {
    List<Path> found = new ArrayList<>();
    for (Class<?> one : List.of(FlinkJars.class, TrainedModel.class, Communicator.class)) {
      try {
        found.add(Path.of(one.getProtectionDomain().getCodeSource().getLocation().toURI()));
      } catch (URISyntaxException never) {
        throw new IllegalStateException(never);
      }
    }
    for (Path jar : found) {
      if (!Files.isRegularFile(jar)) {
        throw new IllegalStateException(
            "a Flink job needs jars to take along, and its classes come from "
                + jar
                + "; run it by integration-tests/run.sh flink23");
      }
    }
    return found;
  }

  @Override
  public FlinkProcess startJobManager(String name, List<String> arguments) throws IOException {
    return start(
        name,
        "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
        arguments,
        "320m");
  }

  @Override
  public FlinkProcess startTaskManager(String name, List<String> arguments) throws IOException {
    return start(
        name,
        "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
        arguments,
        measured ? "512m" : "256m");
  }

  private FlinkProcess start(String name, String main, List<String> arguments, String memory)
      throws IOException {
    List<String> all = new ArrayList<>(List.of("--configDir", settings.toString()));
    all.addAll(arguments);
    Path log = work.file(name + ".log");
    JavaProcess java =
        new JavaProcess(name, main, all.toArray(new String[0]))
            .classPath(classPath)
            .memory(memory)
            .option(measured ? "-XX:+TieredCompilation" : ONE_TIER)
            .property("log4j2.configurationFile", settings.resolve(LOG_SETTINGS).toString())
            .property("rejoin.it.log", log.toString())
            .property("java.io.tmpdir", work.folder("tmp").toString())
            .start(work.file(name + ".out.log"));
    return new FlinkProcess(name, java.process(), log);
  }
}
