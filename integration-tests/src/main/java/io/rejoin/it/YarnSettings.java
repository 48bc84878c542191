package io.rejoin.it;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The files of settings of a {@link YarnCluster}: one folder for each of its processes. Two queues
 * of the capacity scheduler, which takes back by preemption what a queue has beyond its share; all
 * waits of minutes are shortened to seconds.
 */
final class YarnSettings {
  /** What each of the two nodes offers to containers. */
  static final int NODE_MEGABYTES = 5120;

  /** For applications under test: 60 % of the cluster are guaranteed. */
  static final String QUEUE = "training";

  /** For another one: 40 %. */
  static final String OTHER_QUEUE = "other";

  /** After so many silent milliseconds a node counts as lost. */
  private static final int NODE_EXPIRY_MILLIS = 20_000;

  private final WorkDirectory work;
  private final Map<String, String> common = new LinkedHashMap<>();

  YarnSettings(WorkDirectory work) throws IOException {
    this.work = work;
    String manager = "yarn.resourcemanager.";
    List<Integer> ports = freePorts(5);
    int next = 0;
    for (String server : List.of("", "scheduler.", "resource-tracker.", "admin.", "webapp.")) {
      common.put(manager + server + "address", "127.0.0.1:" + ports.get(next++));
    }
    common.put("fs.defaultFS", "file:///");
    common.put("hadoop.tmp.dir", work.folder("tmp").toString());
    common.put("yarn.scheduler.minimum-allocation-mb", "128");
    common.put("yarn.scheduler.maximum-allocation-mb", "" + NODE_MEGABYTES);
    common.put(manager + "nodemanagers.heartbeat-interval-ms", "200");
    common.put("yarn.nm.liveness-monitor.expiry-interval-ms", "" + NODE_EXPIRY_MILLIS);
    common.put(manager + "scheduler.monitor.enable", "true");
    String preemption = manager + "monitor.capacity.preemption.";
    common.put(preemption + "monitoring_interval", "500");
    common.put(preemption + "max_wait_before_kill", "500");
    common.put(preemption + "total_preemption_per_round", "1.0");
    common.put(preemption + "natural_termination_factor", "1.0");
    common.put(preemption + "max_ignored_over_capacity", "0.0");
  }

  /** Where the ResourceManager has its pages. */
  String managerPages() {
    return "http://" + common.get("yarn.resourcemanager.webapp.address");
  }

  /** Writes the folder of a process of this name, and returns it. */
  Path write(String name) throws IOException {
    Path folder = work.folder(name);
    Map<String, String> all = new LinkedHashMap<>(common);
    String node = "yarn.nodemanager.";
    for (String server : List.of("", "localizer.", "webapp.")) {
      all.put(node + server + "address", "127.0.0.1:0");
    }
    all.put(node + "resource.memory-mb", "" + NODE_MEGABYTES);
    all.put(node + "resource.cpu-vcores", "16");
    all.put(node + "pmem-check-enabled", "false");
    all.put(node + "vmem-check-enabled", "false");
    all.put(node + "local-dirs", containers(name).toString());
    all.put(node + "log-dirs", work.file("logs").resolve(name).toString());
    // A disk of which 90 % are used would be no disk to it.
    all.put(node + "disk-health-checker.max-disk-utilization-per-disk-percentage", "100.0");
    write(folder.resolve("yarn-site.xml"), all);
    write(folder.resolve("core-site.xml"), common);
    write(folder.resolve("capacity-scheduler.xml"), queues());
    return folder;
  }

  /** Below this folder the containers of a node work. */
  Path containers(String node) {
    return work.file("containers").resolve(node);
  }

  private static Map<String, String> queues() {
    Map<String, String> all = new LinkedHashMap<>();
    String capacity = "yarn.scheduler.capacity.";
    all.put(capacity + "maximum-am-resource-percent", "1.0");
    // So that the executors of an application are on both nodes: one container with each sign of
    // life.
    all.put(capacity + "per-node-heartbeat.maximum-container-assignments", "1");
    all.put(capacity + "root.queues", QUEUE + "," + OTHER_QUEUE);
    Map.of(QUEUE, "60", OTHER_QUEUE, "40")
        .forEach(
            (queue, share) -> {
              all.put(capacity + "root." + queue + ".capacity", share);
              all.put(capacity + "root." + queue + ".maximum-capacity", "100");
              all.put(capacity + "root." + queue + ".user-limit-factor", "10");
            });
    return all;
  }

  private static void write(Path file, Map<String, String> settings) throws IOException {
    StringBuilder text = new StringBuilder("<configuration>\n");
    settings.forEach(
        (key, value) ->
            text.append("<property><name>")
                .append(key)
                .append("</name><value>")
                .append(value)
                .append("</value></property>\n"));
    Files.writeString(file, text.append("</configuration>\n"));
  }

  /** All are held at the same time, so that they differ. */
  private static List<Integer> freePorts(int count) throws IOException {
    List<ServerSocket> held = new ArrayList<>();
    List<Integer> ports = new ArrayList<>();
    try {
      for (int each = 0; each < count; each++) {
        ServerSocket one = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        held.add(one);
        ports.add(one.getLocalPort());
      }
    } finally {
      for (ServerSocket one : held) {
        one.close();
      }
    }
    return ports;
  }
}
