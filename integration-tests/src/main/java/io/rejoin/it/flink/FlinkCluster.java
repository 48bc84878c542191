package io.rejoin.it.flink;

import io.rejoin.it.Cluster;
import io.rejoin.it.Processes;
import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A real Flink cluster on this machine: one JobManager and as many TaskManagers as are asked for,
 * each in a process of its own. Unlike Spark's worker, Flink leaves it to others to replace a
 * TaskManager that died.
 *
 * <p>Nothing outlives it: {@link #close} kills every process, a shutdown hook calls it, and should
 * this process be killed outright, their leashes end them.
 */
public final class FlinkCluster implements Cluster, AutoCloseable {
  private static final Pattern RPC =
      Pattern.compile("Actor system started at \\S+@127\\.0\\.0\\.1:(\\d+)");
  private static final Pattern REST =
      Pattern.compile("Rest endpoint listening at 127\\.0\\.0\\.1:(\\d+)");
  private static final Duration START = Duration.ofSeconds(90);

  private final WorkDirectory work;
  private final Installation installation;
  private final Map<String, String> settings;
  private final List<Path> ofJobs;
  private final boolean replaces;
  private final List<FlinkProcess> taskManagers = new CopyOnWriteArrayList<>();
  private final Thread hook = new Thread(this::close, "cluster-shutdown");
  private FlinkProcess zooKeeper;
  private FlinkProcess jobManager;
  private FlinkRest rest;
  private int started;
  private boolean closed;

  private FlinkCluster(WorkDirectory work, Installation installation, Builder builder) {
    this.work = work;
    this.installation = installation;
    replaces = builder.replaces;
    ofJobs = builder.inLib ? List.of() : FlinkJars.ofJob();
    settings = new LinkedHashMap<>(basis(work));
    settings.put("taskmanager.numberOfTaskSlots", Integer.toString(builder.slots));
    settings.put("taskmanager.cpu.cores", builder.slots + ".0");
    settings.putAll(builder.settings);
  }

  /** Begins a cluster whose folder has this name. */
  public static Builder named(String name) {
    return new Builder(name);
  }

  /** What a cluster shall be like. */
  public static final class Builder {
    private final String name;
    private final Map<String, String> settings = new LinkedHashMap<>();
    private int taskManagers = 1;
    private int slots = 1;
    private boolean inLib;
    private boolean replaces;
    private boolean isHighlyAvailable;
    private Path distribution;
    private boolean measured;

    private Builder(String name) {
      this.name = name;
    }

    /** How many TaskManagers it starts with; 1 if nothing is said. */
    public Builder taskManagers(int count) {
      taskManagers = count;
      return this;
    }

    /** How many slots a TaskManager has; 1 if nothing is said. */
    public Builder slots(int count) {
      slots = count;
      return this;
    }

    /** One of Flink's settings, for all its processes. */
    public Builder setting(String key, String value) {
      settings.put(key, value);
      return this;
    }

    /** A TaskManager that dies is replaced at once. */
    public Builder replacing() {
      replaces = true;
      return this;
    }

    /** Another JobManager goes on with the jobs of one that died; ZooKeeper knows of them. */
    public Builder highlyAvailable() {
      isHighlyAvailable = true;
      return this;
    }

    /** Rejoin's jars and ours are in the cluster's lib/; else each job takes them along. */
    public Builder jarsInLib() {
      inLib = true;
      return this;
    }

    /** Its programs are those of a distribution in this folder, not the jars of our class path. */
    public Builder distribution(Path home) {
      distribution = home;
      return this;
    }

    /** Its processes optimise what they run, and have memory for it: their speed is looked at. */
    public Builder measured() {
      measured = true;
      return this;
    }

    /** Starts it, and waits until all TaskManagers have come. */
    public FlinkCluster start() {
      WorkDirectory work = WorkDirectory.fresh(name);
      List<Path> libraries = inLib ? FlinkJars.ofJob() : List.of();
      try {
        Installation installation =
            distribution == null
                ? new FlinkJars(work, libraries, measured)
                : new FlinkDistribution(distribution, work, libraries);
        return start(work, installation);
      } catch (IOException cannot) {
        throw new IllegalStateException("cannot write into " + work.root(), cannot);
      }
    }

    private FlinkCluster start(WorkDirectory work, Installation installation) {
      FlinkCluster cluster = new FlinkCluster(work, installation, this);
      Runtime.getRuntime().addShutdownHook(cluster.hook);
      try {
        if (isHighlyAvailable) {
          cluster.startZooKeeper();
        }
        cluster.startJobManager();
        for (int i = 0; i < taskManagers; i++) {
          cluster.startTaskManager();
        }
        cluster.awaitTaskManagers(taskManagers);
        return cluster;
      } catch (Exception | AssertionError failed) {
        String logs = work.tails(30);
        cluster.close();
        throw new IllegalStateException(
            "the Flink cluster did not start: " + failed.getMessage() + "\n" + logs, failed);
      }
    }
  }

  private static Map<String, String> basis(WorkDirectory work) {
    Map<String, String> all = new LinkedHashMap<>();
    all.put("jobmanager.rpc.address", "127.0.0.1");
    all.put("jobmanager.bind-host", "127.0.0.1");
    all.put("rest.address", "127.0.0.1");
    all.put("rest.bind-address", "127.0.0.1");
    all.put("taskmanager.host", "127.0.0.1");
    all.put("taskmanager.bind-host", "127.0.0.1");
    // A distribution's own settings say the whole; that must be the sum of the parts.
    all.put("jobmanager.memory.process.size", "512m");
    all.put("taskmanager.memory.process.size", "560m");
    all.put("jobmanager.memory.heap.size", "256m");
    all.put("jobmanager.memory.off-heap.size", "64m");
    all.put("jobmanager.memory.jvm-metaspace.size", "128m");
    all.put("jobmanager.memory.jvm-overhead.min", "64m");
    all.put("jobmanager.memory.jvm-overhead.max", "64m");
    all.put("taskmanager.memory.framework.heap.size", "64m");
    all.put("taskmanager.memory.task.heap.size", "128m");
    all.put("taskmanager.memory.framework.off-heap.size", "64m");
    all.put("taskmanager.memory.task.off-heap.size", "64m");
    all.put("taskmanager.memory.network.min", "32m");
    all.put("taskmanager.memory.network.max", "32m");
    all.put("taskmanager.memory.managed.size", "16m");
    all.put("taskmanager.memory.jvm-metaspace.size", "128m");
    all.put("taskmanager.memory.jvm-overhead.min", "64m");
    all.put("taskmanager.memory.jvm-overhead.max", "64m");
    all.put("io.tmp.dirs", work.folder("tmp").toString());
    all.put("execution.checkpointing.storage", "filesystem");
    all.put("state.checkpoints.dir", work.folder("checkpoints").toUri().toString());
    // With the default of 10 s a test would wait for Flink to notice a death.
    all.put("heartbeat.interval", "500");
    // Later a restart that finds no slot fails at once, and some of those are over before a
    // TaskManager has been started in another one's place.
    all.put("resourcemanager.standalone.start-up-time", "3600000");
    // What REST says of a job is up to 3 s old by default: a subtask that runs would have no place.
    all.put("web.refresh-interval", "1");
    // Metrics stand still until all that were asked for them have answered; one that dies meanwhile
    // is waited for so long, by default for 10 minutes.
    all.put("metrics.fetcher.update-interval", "1000");
    all.put("web.timeout", Long.toString(FlinkRest.ANSWER.toMillis()));
    return all;
  }

  private void startZooKeeper() throws Exception {
    zooKeeper = ZooKeeperServer.start(work);
    String port = zooKeeper.awaitLogged(ZooKeeperServer.LISTENING, START).group(1);
    settings.put("high-availability.type", "zookeeper");
    settings.put("high-availability.zookeeper.quorum", "127.0.0.1:" + port);
    settings.put("high-availability.storageDir", work.folder("ha").toUri().toString());
    // A JobManager that is killed leads for so long: by default for a minute.
    settings.put("high-availability.zookeeper.client.session-timeout", "10000");
  }

  private List<String> arguments(Map<String, String> more) {
    Map<String, String> all = new LinkedHashMap<>(settings);
    all.putAll(more);
    List<String> arguments = new ArrayList<>();
    all.forEach((key, value) -> arguments.addAll(List.of("-D", key + "=" + value)));
    return arguments;
  }

  /** Starts a JobManager: the first one, or another one after a death (under high availability). */
  public synchronized void startJobManager() throws Exception {
    // The first one takes ports that are free; those who come after it are found at the same ones.
    Map<String, String> ports = new LinkedHashMap<>();
    ports.put("jobmanager.rpc.port", settings.getOrDefault("jobmanager.rpc.port", "0"));
    ports.put("rest.port", settings.getOrDefault("rest.port", "0"));
    String name = "jobmanager-" + started++;
    jobManager = installation.startJobManager(name, arguments(ports));
    String rpc = jobManager.awaitLogged(RPC, START).group(1);
    rest = new FlinkRest(Integer.parseInt(jobManager.awaitLogged(REST, START).group(1)));
    settings.put("jobmanager.rpc.port", rpc);
    settings.put("rest.port", Integer.toString(rest.port()));
  }

  /** Starts one more TaskManager, and doesn't wait until it has come. */
  public synchronized FlinkProcess startTaskManager() throws IOException {
    String name = "taskmanager-" + started++;
    FlinkProcess process =
        installation.startTaskManager(name, arguments(Map.of("taskmanager.resource-id", name)));
    taskManagers.add(process);
    if (replaces) {
      process.atEnd(this::replace);
    }
    return process;
  }

  private synchronized void replace() {
    if (!closed) {
      try {
        startTaskManager();
      } catch (IOException cannot) {
        throw new IllegalStateException("cannot replace a TaskManager", cannot);
      }
    }
  }

  /** The living TaskManagers. */
  public List<FlinkProcess> taskManagers() {
    return taskManagers.stream().filter(FlinkProcess::isAlive).collect(Collectors.toList());
  }

  /** The TaskManager of this name, dead or alive. */
  public FlinkProcess taskManager(String name) {
    return taskManagers.stream()
        .filter(process -> process.name().equals(name))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("no TaskManager is called " + name));
  }

  /** The newest JobManager. */
  public FlinkProcess jobManager() {
    return jobManager;
  }

  /** The REST interface of the newest JobManager. */
  public FlinkRest rest() {
    return rest;
  }

  /** How many slots are free now, by what the JobManager has noticed. */
  public int freeSlots() throws IOException {
    return overview("slots-available");
  }

  private int overview(String key) throws IOException {
    JsonNode value = rest.get("/overview").get(key);
    return value.asInt();
  }

  /** Waits until exactly so many TaskManagers are registered, and all their slots are free. */
  public void awaitTaskManagers(int count) throws Exception {
    awaitTaskManagers(count, START);
  }

  /** The same, within this limit. */
  public void awaitTaskManagers(int count, Duration limit) throws Exception {
    int slots = count * Integer.parseInt(settings.get("taskmanager.numberOfTaskSlots"));
    Waiting.untilTrue(
        count + " TaskManagers have come, and their slots are free",
        limit,
        () -> overview("taskmanagers") == count && freeSlots() == slots);
  }

  /**
   * Where a job is built that runs here: with Rejoin's jars, ours, and these settings of Flink.
   * Such a job is submitted by {@link #submit}.
   */
  public StreamExecutionEnvironment environment(Map<String, String> more) {
    Map<String, String> all = new LinkedHashMap<>();
    all.put("restart-strategy.type", "fixed-delay");
    all.put("restart-strategy.fixed-delay.attempts", "20");
    all.put("restart-strategy.fixed-delay.delay", "200 ms");
    all.putAll(more);
    return StreamExecutionEnvironment.createRemoteEnvironment(
        "127.0.0.1",
        rest.port(),
        Configuration.fromMap(all),
        ofJobs.stream().map(Path::toString).toArray(String[]::new));
  }

  /** Submits what was built in this environment, which has to be one of {@link #environment}. */
  public FlinkJob submit(StreamExecutionEnvironment environment, String name) throws Exception {
    return job(environment.executeAsync(name).getJobID().toHexString());
  }

  /**
   * Runs {@code bin/flink} to its end, for this cluster, which has to be of a distribution.
   *
   * @param action such as {@code run}
   * @param arguments what follows it
   * @return what was printed
   * @throws AssertionError when its status isn't 0, or it doesn't end within the limit
   */
  public String client(Duration limit, String action, List<String> arguments)
      throws IOException, InterruptedException {
    List<String> all = new ArrayList<>(List.of(action, "-t", "remote"));
    all.addAll(List.of("-Drest.address=127.0.0.1", "-Drest.port=" + rest.port()));
    all.addAll(arguments);
    return ((FlinkDistribution) installation).client(all, limit);
  }

  /** A job by its id. */
  public FlinkJob job(String id) {
    return new FlinkJob(rest, id);
  }

  @Override
  public WorkDirectory work() {
    return work;
  }

  @Override
  public List<Processes.Found> processes() {
    List<FlinkProcess> all = new ArrayList<>(taskManagers);
    all.add(jobManager);
    return all.stream()
        .filter(FlinkProcess::isAlive)
        .map(process -> new Processes.Found(process.pid(), List.of(process.name())))
        .collect(Collectors.toList());
  }

  /** Kills all its processes; its files stay. */
  public synchronized void lose() {
    closed = true;
    taskManagers.forEach(FlinkProcess::close);
    if (jobManager != null) {
      jobManager.close();
    }
    if (zooKeeper != null) {
      zooKeeper.close();
    }
  }

  /** Kills all processes of this cluster. Closing again does nothing. */
  @Override
  public synchronized void close() {
    lose();
    work.shrink();
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException shuttingDown) {
      // This is the hook.
    }
  }
}
