package io.rejoin.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A real YARN on this machine: a ResourceManager and two NodeManagers, each in a process of its
 * own. Applications are submitted to it by a Spark distribution; the NodeManagers start their
 * containers, again each in a process of its own.
 *
 * <p>Nothing outlives it, as with {@link StandaloneCluster}.
 */
public final class YarnCluster implements Cluster, AutoCloseable {
  private static final Duration START = Duration.ofSeconds(120);
  private static final Pattern NODE_PAGES = Pattern.compile("Web app node started at (\\d+)");
  private static final String MANAGERS = "org.apache.hadoop.yarn.server.";

  private final String mark = "-Drejoin.it.cluster=" + UUID.randomUUID();
  private final WorkDirectory work;
  private final YarnSettings settings;
  private final String classPath;
  private final Thread hook = new Thread(this::close, "yarn-shutdown");
  private final Map<String, JavaProcess> nodes = new LinkedHashMap<>();
  private JavaProcess manager;
  private int started;
  private boolean closed;

  private YarnCluster(WorkDirectory work) throws IOException {
    this.work = work;
    this.settings = new YarnSettings(work);
    Leash.jar(leash());
    this.classPath = leash() + ":" + Files.readString(Path.of("build/yarn.txt")).trim();
  }

  /** Starts all three, and waits until they know each other. */
  public static YarnCluster start(String name) {
    WorkDirectory work = WorkDirectory.fresh(name);
    YarnCluster cluster = null;
    try {
      cluster = new YarnCluster(work);
      Runtime.getRuntime().addShutdownHook(cluster.hook);
      cluster.manager = cluster.child("manager", "resourcemanager.ResourceManager");
      cluster.awaitLog(cluster.manager, "manager", "Transitioned to active state");
      cluster.restore();
      return cluster;
    } catch (IOException | RuntimeException failed) {
      String logs = work.tails(30);
      if (cluster != null) {
        cluster.close();
      }
      throw new IllegalStateException(
          "YARN did not start: " + failed.getMessage() + "\n" + logs, failed);
    }
  }

  /** Starts NodeManagers until there are two of them. */
  public void restore() throws IOException {
    nodes.values().removeIf(node -> !node.process().isAlive());
    List<String> fresh = new ArrayList<>();
    while (nodes.size() < 2) {
      String name = "node" + started++;
      nodes.put(name, child(name, "nodemanager.NodeManager"));
      fresh.add(name);
    }
    for (String name : fresh) {
      awaitLog(nodes.get(name), name, "Registered with ResourceManager as");
    }
  }

  private JavaProcess child(String name, String main) throws IOException {
    Path configuration = settings.write(name);
    return new JavaProcess(name, MANAGERS + main)
        .classPath(configuration + ":" + classPath)
        .property(mark.substring(2, mark.indexOf('=')), mark.substring(mark.indexOf('=') + 1))
        .property("log4j2.configurationFile", work.logSettings().toString())
        // A page has a link to it.
        .property("hadoop.log.dir", work.folder("managers-logs").toString())
        .property("rejoin.it.log", work.file(name + ".log").toString())
        .start(work.file(name + ".out.log"));
  }

  /** An agent by which a client of the distribution ends when its parent does. */
  public Path leash() {
    return work.file("leash.jar");
  }

  /** The folder that says to a client where this YARN is. */
  public Path configuration() {
    return work.file("manager");
  }

  private void awaitLog(JavaProcess process, String name, String wanted) throws IOException {
    Path log = work.file(name + ".log");
    long deadline = System.nanoTime() + START.toNanos();
    while (!Files.exists(log) || !Files.readString(log).contains(wanted)) {
      if (!process.process().isAlive()) {
        throw new IllegalStateException(process + " ended");
      }
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException(
            process + " did not say `" + wanted + "` within " + START.toSeconds() + " s");
      }
      try {
        Thread.sleep(50); // Between two looks; the deadline decides, not this.
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for " + process, interrupted);
      }
    }
  }

  /** Where the ResourceManager has its pages. */
  public String managerPages() {
    return settings.managerPages();
  }

  /** Where the NodeManagers have theirs. */
  public List<String> nodePages() throws IOException {
    List<String> pages = new ArrayList<>();
    for (String name : nodes.keySet()) {
      Matcher port = NODE_PAGES.matcher(Files.readString(work.file(name + ".log")));
      if (!port.find()) {
        throw new IllegalStateException("no port of its pages in the log of " + name);
      }
      pages.add("http://127.0.0.1:" + port.group(1));
    }
    return pages;
  }

  /** The node in whose folders a container's process works. */
  public String nodeOf(long pid) {
    return nodes.keySet().stream()
        .filter(node -> Processes.workingIn(settings.containers(node)).contains(pid))
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("process " + pid + " is in no container"));
  }

  /** The processes of all containers of all nodes. */
  public List<Long> containers() {
    return nodes.keySet().stream()
        .flatMap(node -> containersOf(node).stream())
        .collect(Collectors.toList());
  }

  /** The processes of all containers of a node. */
  public List<Long> containersOf(String node) {
    return Processes.workingIn(settings.containers(node));
  }

  /** SIGKILL to a NodeManager; its containers' processes stay. */
  public void killNode(String node) throws InterruptedException {
    nodes.get(node).process().destroyForcibly().waitFor();
  }

  /**
   * Files of this name among the logs of all containers, of which there may be none yet, in the
   * order in which these were allocated.
   */
  public List<Path> containerLogs(String name) {
    try (Stream<Path> all = Files.walk(work.folder("logs"))) {
      return all.filter(file -> file.getFileName().toString().equals(name))
          .sorted(Comparator.comparing(file -> file.getParent().getFileName()))
          .collect(Collectors.toList());
    } catch (IOException cannot) {
      throw new IllegalStateException("cannot list the containers' logs", cannot);
    }
  }

  /** What an application that is submitted here must have. */
  public Map<String, String> applicationSettings(Path distribution) {
    String options =
        mark
            + " -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="
            + work.logSettings();
    Map<String, String> conf = new LinkedHashMap<>();
    conf.put("spark.master", "yarn");
    conf.put("spark.ui.enabled", "false");
    conf.put("spark.driver.memory", "640m");
    conf.put("spark.executor.cores", "1");
    conf.put("spark.executor.memory", "640m");
    conf.put("spark.executor.extraJavaOptions", options);
    conf.put("spark.driver.extraJavaOptions", options + " -Drejoin.it.data=" + dataFolder());
    conf.put("spark.yarn.am.extraJavaOptions", options);
    conf.put("spark.yarn.jars", "local:" + distribution.toAbsolutePath() + "/jars/*");
    conf.put("spark.yarn.stagingDir", work.folder("staging").toUri().toString());
    conf.put("spark.executorEnv.SPARK_LOCAL_IP", "127.0.0.1");
    conf.put("spark.yarn.appMasterEnv.SPARK_LOCAL_IP", "127.0.0.1");
    conf.put("spark.sql.warehouse.dir", work.folder("warehouse").toString());
    conf.put("spark.sql.shuffle.partitions", "4");
    return conf;
  }

  private static Path dataFolder() {
    return Randhie.file().getParent();
  }

  @Override
  public WorkDirectory work() {
    return work;
  }

  /** All processes but this one, also those of containers whose node is gone. */
  @Override
  public List<Processes.Found> processes() {
    long self = ProcessHandle.current().pid();
    return Processes.marked(mark).stream()
        .filter(process -> process.pid() != self)
        .collect(Collectors.toList());
  }

  /** Ends all processes of this cluster. Closing again does nothing. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    // NodeManagers first, which would start again what they see die.
    nodes.values().forEach(node -> node.process().destroyForcibly());
    processes().forEach(process -> Processes.signal(process.pid(), "KILL"));
    if (manager != null) {
      manager.close();
    }
    work.shrink();
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException shuttingDown) {
      // This is the hook.
    }
  }
}
