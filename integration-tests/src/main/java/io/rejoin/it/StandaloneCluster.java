package io.rejoin.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A real standalone Spark cluster on this machine, from the jars of the class path alone or from a
 * distribution as it is unpacked: one master and one worker, or more that stand for hosts, each in
 * a process of its own; a worker starts the executors, again each in a process of its own, and
 * replaces those that die.
 *
 * <p>Nothing outlives it: {@link #close} ends every process that carries the cluster's mark, a
 * shutdown hook calls it, and should this process be killed outright, the {@link Leash} ends master
 * and worker, and executors end without a driver.
 */
public final class StandaloneCluster implements Cluster, AutoCloseable {
  private static final Pattern MASTER =
      Pattern.compile("Starting Spark master at (spark://[0-9.]+:[0-9]+)");
  private static final String REGISTERED = "Successfully registered with master";
  private static final Duration START = Duration.ofSeconds(60);

  private final String mark = "-Drejoin.it.cluster=" + UUID.randomUUID();
  private final WorkDirectory work;
  private final Path home;
  private final boolean whole;
  private final HostNetwork network;
  private final Thread hook = new Thread(this::close, "cluster-shutdown");
  private final String scalaVersion;
  private JavaProcess master;
  private final List<JavaProcess> workers = new CopyOnWriteArrayList<>();
  private String address;
  private boolean closed;

  private StandaloneCluster(WorkDirectory work, Path distribution, HostNetwork network) {
    this.work = work;
    this.network = network;
    this.scalaVersion =
        scala.util.Properties.versionNumberString().startsWith("2.13") ? "2.13" : "2.12";
    this.whole = distribution != null;
    this.home = whole ? distribution.toAbsolutePath() : work.folder("home");
    if (!whole) {
      // Spark looks for this folder; the class path has everything already.
      work.folder("home/jars");
    }
  }

  /** Starts master and worker, with so many slots, and waits until they know each other. */
  public static StandaloneCluster start(String name, int slots) {
    return start(name, slots, null);
  }

  /**
   * Starts a master on this machine, and a worker with one slot on each host of this network, which
   * the caller takes down after the cluster.
   */
  public static StandaloneCluster onHosts(String name, HostNetwork network) {
    return start(new StandaloneCluster(WorkDirectory.fresh(name), null, network), 1);
  }

  /** The same from this distribution. Nothing of ours is on the class path of its processes. */
  public static StandaloneCluster start(String name, int slots, Path distribution) {
    if (distribution != null && !Files.isExecutable(distribution.resolve("bin/spark-submit"))) {
      throw new IllegalStateException(
          "expected a Spark distribution in "
              + distribution
              + "; scripts/spark-distribution.sh fetches it");
    }
    return start(new StandaloneCluster(WorkDirectory.fresh(name), distribution, null), slots);
  }

  private static StandaloneCluster start(StandaloneCluster cluster, int slots) {
    Runtime.getRuntime().addShutdownHook(cluster.hook);
    try {
      cluster.open(slots);
      return cluster;
    } catch (IOException | RuntimeException failed) {
      String logs = cluster.work.tails(30);
      cluster.close();
      throw new IllegalStateException(
          "the Spark cluster did not start: " + failed.getMessage() + "\n" + logs, failed);
    }
  }

  private void open(int slots) throws IOException {
    master =
        child(
            "master",
            "org.apache.spark.deploy.master.Master",
            "--host",
            address(-1),
            "--port",
            "0",
            "--webui-port",
            "0");
    master.environment("SPARK_LOCAL_IP", address(-1)).start(work.file("master.out.log"));
    address = await(master, work.file("master.log"), MASTER).group(1);
    addWorker(slots);
    while (network != null && workers.size() < network.hosts()) {
      addWorker(slots);
    }
  }

  /** Of a host of the network, or of this machine: -1. */
  private String address(int host) {
    if (network == null) {
      return "127.0.0.1";
    }
    return host < 0 ? network.address() : network.address(host);
  }

  /** Starts one more worker, with so many slots, and waits until the master knows it. */
  public synchronized void addWorker(int slots) throws IOException {
    String name = workers.isEmpty() ? "worker" : "worker" + workers.size();
    JavaProcess worker =
        child(
            name,
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            address(workers.size()),
            "--port",
            "0",
            "--webui-port",
            "0",
            "--cores",
            Integer.toString(slots),
            "--memory",
            // The largest executors that any of them asks for.
            slots * 4 + "g",
            "--work-dir",
            work.folder("executors").toString(),
            address);
    worker.environment("SPARK_LOCAL_IP", address(workers.size()));
    if (network != null) {
      worker.startedBy(network.starter(workers.size()));
    }
    workers.add(worker);
    worker.start(work.file(name + ".out.log"));
    await(worker, work.file(name + ".log"), Pattern.compile(Pattern.quote(REGISTERED)));
  }

  private JavaProcess child(String name, String main, String... arguments) throws IOException {
    JavaProcess process = new JavaProcess(name, main, arguments);
    if (whole) {
      process.distribution(home, leash());
    }
    return process
        .property(mark.substring(2, mark.indexOf('=')), mark.substring(mark.indexOf('=') + 1))
        .property("log4j2.configurationFile", logSettings())
        .property("rejoin.it.log", work.file(name + ".log").toString())
        // Tests kill executors on purpose: the master must not give up on an application because of
        // that.
        .property("spark.deploy.maxExecutorRetries", "-1")
        .property("spark.worker.cleanup.enabled", "false")
        .environment("SPARK_HOME", home.toString())
        .environment("SPARK_SCALA_VERSION", scalaVersion);
  }

  /** What its processes have as SPARK_HOME. */
  public Path home() {
    return home;
  }

  /** An agent by which a process of the distribution ends when its parent does. */
  public Path leash() throws IOException {
    Path leash = work.file("leash.jar");
    if (!Files.exists(leash)) {
      Leash.jar(leash);
    }
    return leash;
  }

  /** A file where our class path isn't the processes', a resource otherwise. */
  private String logSettings() {
    return whole ? work.logSettings().toString() : WorkDirectory.LOG_SETTINGS;
  }

  /**
   * What a session on this cluster must have; the caller adds {@code spark.cores.max} and what it
   * tests.
   */
  public Map<String, String> configuration() {
    Map<String, String> conf = new LinkedHashMap<>();
    conf.put("spark.master", address);
    conf.put("spark.ui.enabled", "false");
    conf.put("spark.driver.host", address(-1));
    conf.put("spark.driver.bindAddress", address(-1));
    conf.put("spark.executor.cores", "1");
    conf.put("spark.executor.memory", "640m");
    if (!whole) {
      conf.put("spark.executor.extraClassPath", System.getProperty("java.class.path"));
      conf.put("spark.executorEnv.SPARK_SCALA_VERSION", scalaVersion);
    }
    conf.put(
        "spark.executor.extraJavaOptions",
        mark
            + JavaProcess.quick()
            + " -XX:+UseSerialGC -Dlog4j2.configurationFile="
            + logSettings()
            // A killed executor leaves its copies of native libraries, tens of megabytes each.
            + " \"-Djava.io.tmpdir="
            + work.folder("temporary")
            + "\"");
    conf.put("spark.local.dir", work.folder("scratch").toString());
    conf.put("spark.sql.warehouse.dir", work.folder("warehouse").toString());
    conf.put("spark.sql.shuffle.partitions", "4");
    return conf;
  }

  /** The word that every process of this cluster has on its command line. */
  public String mark() {
    return mark;
  }

  /** The process that starts executors. */
  public Process workerProcess() {
    return workers.get(0).process();
  }

  /** Which worker has started this executor, from 0: which host of a network it is on. */
  public int hostOf(long executor) {
    long parent =
        ProcessHandle.of(executor)
            .flatMap(ProcessHandle::parent)
            .map(ProcessHandle::pid)
            .orElse(-1L);
    for (int worker = 0; worker < workers.size(); worker++) {
      if (workers.get(worker).process().pid() == parent) {
        return worker;
      }
    }
    throw new IllegalStateException("process " + executor + " is no executor's");
  }

  /** Ends a worker by force, and this executor of it: they are gone as a host is. */
  public void killHostOf(long executor) {
    long worker = workers.get(hostOf(executor)).process().pid();
    if (!Processes.signal(worker, "KILL") || !Processes.signal(executor, "KILL")) {
      throw new IllegalStateException("the worker of executor " + executor + " was gone already");
    }
  }

  @Override
  public WorkDirectory work() {
    return work;
  }

  /** The executors. */
  @Override
  public List<Processes.Found> processes() {
    long self = ProcessHandle.current().pid();
    return Processes.marked(mark).stream()
        .filter(process -> process.command().contains("--executor-id") && process.pid() != self)
        .collect(Collectors.toList());
  }

  public String address() {
    return address;
  }

  /** Ends all processes of this cluster. Closing again does nothing. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    // Executors first and by force: a frozen one would not hear anything gentler.
    kill();
    workers.forEach(JavaProcess::close);
    if (master != null) {
      master.close();
    }
    kill();
    work.shrink();
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException shuttingDown) {
      // This is the hook.
    }
  }

  private void kill() {
    processes().forEach(executor -> Processes.signal(executor.pid(), "KILL"));
  }

  private static Matcher await(JavaProcess process, Path log, Pattern wanted) throws IOException {
    long deadline = System.nanoTime() + START.toNanos();
    while (System.nanoTime() < deadline) {
      String text = Files.exists(log) ? Files.readString(log) : "";
      Matcher match = wanted.matcher(text);
      if (match.find()) {
        return match;
      }
      if (!process.process().isAlive()) {
        throw new IllegalStateException(
            process + " ended with status " + process.process().exitValue());
      }
      try {
        Thread.sleep(50); // Between two looks at a file; the deadline decides, not this.
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for " + process, interrupted);
      }
    }
    throw new IllegalStateException(
        process + " did not say `" + wanted + "` within " + START.toSeconds() + " s");
  }
}
