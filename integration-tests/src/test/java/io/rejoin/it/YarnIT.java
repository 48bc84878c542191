package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** Spark on YARN, in short; {@link YarnLongIT} has the rest. */
@DisplayName("on YARN")
class YarnIT {
  private static YarnApplications yarn;

  @BeforeAll
  static void start() {
    yarn = YarnApplications.start();
  }

  @AfterAll
  static void stop() {
    if (yarn != null) {
      yarn.close();
    }
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  @DisplayName("in client mode a killed container comes back, and nobody sees the secret")
  void in_client_mode() throws Exception {
    aContainerIsKilled("client");
  }

  @Test
  @DisplayName("in cluster mode a killed container comes back, and nobody sees the secret")
  void in_cluster_mode() throws Exception {
    aContainerIsKilled("cluster");
  }

  private static void aContainerIsKilled(String mode) throws Exception {
    Path told = Files.createTempFile("told", "");
    Path eventLogs = yarn.cluster().work().folder("events-" + mode);
    String stop = Fault.of(1).version(5, 10_000).stop();
    try (Submission application = yarn.submit(mode, settings(eventLogs, told), "10", "", stop)) {
      application.await("fired", any -> true, YarnApplications.LIMIT);
      SecretSearch search = SecretSearch.of(Files.readAllBytes(told));
      List<String> found = search(search, application);
      Processes.signal(application.processesOfRanks().get("1"), "KILL");
      application.awaitEnd(YarnApplications.LIMIT);
      application.assertSameModels(2);
      assertEquals(List.of("1"), application.facts("again"));
      assertEquals(List.of("0", "1"), application.facts("deaths"), "it counts: YARN calls it ours");
      found.addAll(search.having(yarn.cluster().work().root()));
      assertEquals(List.of(), found);
      search.assertFinds(yarn.cluster().work());
      assertTrue(SecretSearch.isText(eventLogs, "SparkListenerJobStart"), "no event log");
    } finally {
      Files.delete(told);
    }
  }

  /** With all that could tell a secret; nothing happens while it is searched for. */
  private static Map<String, String> settings(Path eventLogs, Path told) {
    Map<String, String> settings = yarn.settings();
    settings.put("spark.ui.enabled", "true");
    settings.put("spark.ui.port", "0");
    settings.put("spark.eventLog.enabled", "true");
    settings.put("spark.eventLog.compress", "false");
    settings.put("spark.eventLog.dir", eventLogs.toUri().toString());
    settings.put("spark.rejoin.lost.after", "20min");
    settings.put("spark.rejoin.log.level", "trace");
    settings.merge("spark.executor.extraJavaOptions", " -Drejoin.it.ours=trace", String::concat);
    settings.merge(
        "spark.driver.extraJavaOptions", " -D" + FitDriver.SECRET + "=" + told, String::concat);
    return settings;
  }

  /**
   * Where the secret of an application was found: in files of YARN and of the containers, in these'
   * and the client's arguments and environments, or on pages of YARN and of Spark.
   */
  private static List<String> search(SecretSearch search, Submission application) throws Exception {
    YarnCluster cluster = yarn.cluster();
    List<Path> files = SecretSearch.files(cluster.work().root());
    for (String kind : List.of("launch_container.sh", "container_tokens", "__spark_conf__.zip")) {
      assertTrue(files.stream().anyMatch(file -> file.endsWith(kind)), kind);
    }
    List<String> found = search.having(cluster.work().root());
    Set<Long> processes = new TreeSet<>(application.processes());
    cluster.processes().forEach(process -> processes.add(process.pid()));
    processes.addAll(cluster.containers());
    found.addAll(search.processes(processes));
    String id = application.facts("application").get(0);
    Map<String, byte[]> pages = WebPages.from(addresses(id));
    for (String kind :
        List.of("/rejoin/?job=", "/executors/", "/launch_container.sh/", "/stderr/")) {
      assertTrue(
          pages.keySet().stream().anyMatch(page -> page.contains(kind)),
          () -> "no " + kind + " among " + pages.keySet());
    }
    found.addAll(search.pages(pages));
    return found;
  }

  /** Where links to the other pages are, and answers by REST. */
  private static List<String> addresses(String id) throws IOException {
    String ofManager = yarn.cluster().managerPages();
    String proxy = "/proxy/" + id;
    // Not what it says of applications by REST, which without all of Hadoop's jars it can't write.
    Stream<String> manager =
        Stream.of(
            "/cluster",
            "/conf",
            "/jmx",
            "/stacks",
            "/ws/v1/cluster/info",
            "/ws/v1/cluster/nodes",
            "/ws/v1/cluster/scheduler",
            "/ws/v1/cluster/apps/" + id + "/appattempts",
            proxy + "/",
            proxy + "/api/v1/applications/" + id + "/environment",
            proxy + "/api/v1/applications/" + id + "/stages?details=true");
    List<String> all = new ArrayList<>(manager.map(path -> ofManager + path).toList());
    for (String node : yarn.cluster().nodePages()) {
      Stream.of("/node", "/conf", "/jmx", "/stacks", "/ws/v1/node/apps", "/ws/v1/node/containers")
          .map(path -> node + path)
          .forEach(all::add);
    }
    return all;
  }
}
