package io.rejoin.it;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A child JVM, on our class path unless another one is set, on a {@link Leash}: settings first,
 * then {@link #start}.
 */
public final class JavaProcess implements AutoCloseable {
  /**
   * What Spark needs opened when a plain JVM 17 runs it (its own launcher scripts would say the
   * same).
   */
  static final List<String> OPENS =
      List.of(
          "java.base/java.lang",
          "java.base/java.lang.invoke",
          "java.base/java.lang.reflect",
          "java.base/java.io",
          "java.base/java.net",
          "java.base/java.nio",
          "java.base/java.util",
          "java.base/java.util.concurrent",
          "java.base/java.util.concurrent.atomic",
          "java.base/jdk.internal.ref",
          "java.base/sun.nio.ch",
          "java.base/sun.nio.cs",
          "java.base/sun.security.action",
          "java.base/sun.util.calendar");

  /**
   * Options by which a JVM starts quicker: with {@code rejoin.it.short} no optimising compiler,
   * which would never pay in one that lives for seconds; and where {@code rejoin.it.archive} is a
   * class data archive of our class path, its classes.
   */
  static String quick() {
    String compiler = Boolean.getBoolean("rejoin.it.short") ? " -XX:TieredStopAtLevel=1" : "";
    String archive = System.getProperty("rejoin.it.archive");
    // On another class path it is of no use, and that is no news.
    String quiet = " -Xlog:cds=off -Xlog:class+path=off";
    return compiler + (archive == null ? "" : " -XX:SharedArchiveFile=" + archive + quiet);
  }

  private final String name;
  private final Map<String, String> properties = new LinkedHashMap<>();
  private final Map<String, String> environment = new LinkedHashMap<>();
  private final List<String> command = new ArrayList<>();
  private final List<String> starter = new ArrayList<>();
  private final List<String> options = new ArrayList<>();
  private String classPath = System.getProperty("java.class.path");
  private String memory = "256m";
  private boolean interruptible;
  private Path script;
  private Process process;
  private Path log;

  /** A child with this name for messages, that runs this class. */
  public JavaProcess(String name, Class<?> main, String... arguments) {
    this(name, main.getName(), arguments);
  }

  /** The same for a class that is known by name only. */
  public JavaProcess(String name, String main, String... arguments) {
    this.name = name;
    command.add(main);
    command.addAll(List.of(arguments));
  }

  /** Its largest heap, as {@code -Xmx} has it. */
  public JavaProcess memory(String most) {
    memory = most;
    return this;
  }

  /** It has this class path instead of ours; {@link Leash} must be on it. */
  public JavaProcess classPath(String path) {
    classPath = path;
    return this;
  }

  /** One more option of the JVM, as {@code -XX:} options are written. */
  public JavaProcess option(String option) {
    options.add(option);
    return this;
  }

  public JavaProcess property(String key, String value) {
    properties.put(key, value);
    return this;
  }

  public JavaProcess environment(String key, String value) {
    environment.put(key, value);
    return this;
  }

  /**
   * It hears SIGINT even if we don't: a shell starts what it runs in the background with that
   * signal ignored, and children inherit it.
   */
  public JavaProcess interruptible() {
    interruptible = true;
    return this;
  }

  /** It is started by this command, which is given its own as further arguments and becomes it. */
  public JavaProcess startedBy(List<String> starter) {
    this.starter.addAll(starter);
    return this;
  }

  /**
   * It is started by {@code bin/spark-class} of a distribution, with the distribution's class path.
   *
   * @param home the distribution
   * @param leash a jar as {@link Leash#jar} writes it
   */
  public JavaProcess distribution(Path home, Path leash) {
    script = home.resolve("bin/spark-class");
    options.add("-javaagent:" + leash);
    environment("SPARK_DAEMON_MEMORY", memory);
    return environment("JAVA_HOME", System.getProperty("java.home"));
  }

  /** Starts it; both its outputs go to {@code log}. */
  public JavaProcess start(Path log) throws IOException {
    return start(log, ProcessBuilder.Redirect.appendTo(log.toFile()));
  }

  /** Starts it; both its outputs come to us and must be read. */
  public JavaProcess startPiped() throws IOException {
    return start(null, ProcessBuilder.Redirect.PIPE);
  }

  private JavaProcess start(Path log, ProcessBuilder.Redirect output) throws IOException {
    this.log = log;
    List<String> line = new ArrayList<>(starter);
    if (interruptible) {
      line.addAll(List.of("env", "--default-signal=INT"));
    }
    List<String> all = new ArrayList<>(List.of("-XX:+UseSerialGC"));
    Arrays.stream(quick().split(" ")).filter(option -> !option.isEmpty()).forEach(all::add);
    all.addAll(options);
    properties.forEach((key, value) -> all.add("-D" + key + "=" + value));
    if (script == null) {
      line.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
      line.add("-Xmx" + memory);
      OPENS.forEach(open -> line.add("--add-opens=" + open + "=ALL-UNNAMED"));
      line.addAll(all);
      line.addAll(List.of("-cp", classPath, Leash.class.getName()));
    } else {
      line.add(script.toString());
      environment("SPARK_DAEMON_JAVA_OPTS", String.join(" ", all));
    }
    line.addAll(command);
    ProcessBuilder builder = new ProcessBuilder(line);
    builder.environment().putAll(environment);
    builder.redirectError(output).redirectOutput(output);
    process = builder.start();
    return this;
  }

  /** The child; null before its start. */
  public Process process() {
    return process;
  }

  /** Ends it: politely first, so that its children are ended by it, then by force. */
  @Override
  public void close() {
    if (process == null) {
      return;
    }
    process.destroy();
    try {
      if (!process.waitFor(5, TimeUnit.SECONDS)) {
        process.destroyForcibly().waitFor(5, TimeUnit.SECONDS);
      }
    } catch (InterruptedException interrupted) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public String toString() {
    return name
        + (process == null
            ? " (not started)"
            : " (process " + process.pid() + (log == null ? ")" : ", log " + log + ")"));
  }
}
