package io.rejoin.it;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Spark's history server in a process of its own. */
final class HistoryServer implements AutoCloseable {
  private static final Pattern STARTED = Pattern.compile("HistoryServer.*started at (http://\\S+)");
  private static final Duration LIMIT = Duration.ofSeconds(150);

  private final JavaProcess process;
  private final Path log;
  private final String address;

  private HistoryServer(JavaProcess process, Path log) throws IOException, InterruptedException {
    this.process = process;
    this.log = log;
    try {
      address = started();
    } catch (IOException | InterruptedException | AssertionError failed) {
      process.close();
      throw failed;
    }
  }

  /**
   * That of a distribution, by its own script.
   *
   * @param jars what it has on its class path besides; empty for nothing
   */
  static HistoryServer of(
      StandaloneCluster cluster, String name, Path distribution, Path logs, String jars)
      throws IOException, InterruptedException {
    Path log = cluster.work().file(name + ".log");
    JavaProcess process =
        process(name, logs)
            .distribution(distribution.toAbsolutePath(), cluster.leash())
            .property("spark.history.fs.update.interval", "1s")
            .environment("SPARK_DAEMON_CLASSPATH", jars);
    return new HistoryServer(process.start(log), log);
  }

  /** Of this class path, with our jars. */
  static HistoryServer of(StandaloneCluster cluster, Path logs)
      throws IOException, InterruptedException {
    Path log = cluster.work().file("history.log");
    JavaProcess process =
        process("history", logs)
            .property("log4j2.configurationFile", "rejoin-it-log4j2.properties")
            .property("rejoin.it.log", log.toString())
            .environment("SPARK_HOME", cluster.home().toString());
    return new HistoryServer(process.start(cluster.work().file("history.out.log")), log);
  }

  private static JavaProcess process(String name, Path logs) {
    return new JavaProcess(name, "org.apache.spark.deploy.history.HistoryServer")
        .memory("512m")
        .property("spark.history.fs.logDirectory", logs.toUri().toString())
        .property("spark.history.ui.port", "0")
        .environment("SPARK_LOCAL_IP", "127.0.0.1");
  }

  /** Its first page. */
  String address() {
    return address;
  }

  /** Where it shows an application; returns when it knows it. */
  String of(String application) throws IOException, InterruptedException {
    HttpClient client = HttpClient.newHttpClient();
    HttpRequest known =
        HttpRequest.newBuilder(URI.create(address + "/api/v1/applications/" + application))
            .timeout(LIMIT)
            .build();
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (client.send(known, HttpResponse.BodyHandlers.discarding()).statusCode() != 200) {
      if (System.nanoTime() > deadline) {
        throw new AssertionError(process + " doesn't know " + application);
      }
      Thread.sleep(100); // Between two looks; the deadline decides, not this.
    }
    return address + "/history/" + application;
  }

  /** What it has logged. */
  String log() throws IOException {
    return Files.exists(log) ? Files.readString(log) : "";
  }

  private String started() throws IOException, InterruptedException {
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (System.nanoTime() < deadline && process.process().isAlive()) {
      Matcher match = STARTED.matcher(log());
      if (match.find()) {
        return match.group(1);
      }
      Thread.sleep(50); // Between two looks at a file; the deadline decides, not this.
    }
    throw new AssertionError(process + " did not start:\n" + log());
  }

  @Override
  public void close() {
    process.close();
  }
}
