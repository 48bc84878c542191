package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * What YARN takes away: with {@code spark.task.maxFailures=1} the first death that counted would
 * end the application.
 */
@DisplayName("on YARN, at length")
class YarnLongIT {
  private static final String ROUNDS = "10";
  private static final int HELD_UP = 5;
  private static final Pattern CONTAINER = Pattern.compile("container_\\w+");
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
  void in_cluster_mode_a_driver_that_is_killed_goes_on_in_the_second_attempt() throws Exception {
    Map<String, String> settings = yarn.settings();
    settings.put(
        "spark.rejoin.durable", yarn.cluster().work().folder("durable").toUri().toString());
    settings.put("spark.rejoin.durable.every", "2");
    settings.merge(
        "spark.driver.extraJavaOptions",
        " -D" + FitDriver.ONCE + "=" + yarn.cluster().work().file("once"),
        String::concat);
    String heldUp = Fault.of(1).version(HELD_UP, 0).notice().replace("notify", "delay:120s");
    try (Submission application = yarn.submit("cluster", settings, ROUNDS, heldUp, "")) {
      application.await("fired", any -> true, YarnApplications.LIMIT);
      Processes.signal(processOf(".ApplicationMaster"), "KILL");
      application.awaitEnd(YarnApplications.LIMIT);
      application.assertSameModels(2);
      application.assertWentOn(HELD_UP);
    }
  }

  @Test
  void a_frozen_container_that_is_released_is_replaced_and_does_not_count() throws Exception {
    yarn.cluster().restore();
    Map<String, String> settings = yarn.settings();
    settings.put("spark.task.maxFailures", "1");
    try (Submission application = yarn.submit("client", settings, ROUNDS, "", stops(1))) {
      application.awaitEnd(YarnApplications.LIMIT);
      application.assertSameModels(2);
      assertEquals(List.of("1"), application.facts("again"));
      assertEquals(List.of("0", "0"), application.facts("deaths"));
    }
  }

  @Test
  void an_executor_that_is_told_of_its_end_is_left_before_it_and_that_does_not_count()
      throws Exception {
    yarn.cluster().restore();
    Map<String, String> settings = yarn.settings();
    settings.put("spark.task.maxFailures", "1");
    settings.put("spark.decommission.enabled", "true");
    settings.put("spark.rejoin.lost.after", "240s");
    // All wait for rank 0 until the notice is seen, and for rank 2 until rank 1 has left.
    String stops = stops(0) + "|" + Fault.of(2).version(HELD_UP + 2, 0).stop();
    try (Submission application = yarn.submit("client", settings, ROUNDS, "", stops)) {
      application.await("fired", "0"::equals, YarnApplications.LIMIT);
      Map<String, Long> processes = application.processesOfRanks();
      Processes.signal(processes.get("1"), "PWR");
      application.await("leaves", any -> true, YarnApplications.LIMIT);
      Processes.signal(processes.get("0"), "CONT");
      application.await("lost", "1"::equals, YarnApplications.LIMIT);
      application.await("fired", "1"::equals, YarnApplications.LIMIT);
      Processes.signal(processes.get("2"), "CONT");
      application.awaitEnd(YarnApplications.LIMIT);
      application.assertSameModels(2);
      assertEquals(List.of("1"), application.facts("moved"));
      assertEquals(List.of("1"), application.facts("again"));
      assertEquals(List.of("0", "0"), application.facts("deaths"));
    }
  }

  @Test
  void a_node_manager_that_is_killed_alone_costs_its_containers_which_do_not_count()
      throws Exception {
    aNodeIsLost("client", node -> {});
  }

  @Test
  void in_cluster_mode_a_node_manager_that_is_killed_alone_costs_its_containers_which_do_not_count()
      throws Exception {
    aNodeIsLost("cluster", node -> {});
  }

  @Test
  void a_node_manager_that_is_killed_with_its_containers_costs_these_which_do_not_count()
      throws Exception {
    aNodeIsLost("client", YarnLongIT::killContainers);
  }

  @Test
  void in_cluster_mode_a_node_manager_that_is_killed_with_its_containers_costs_these_alone()
      throws Exception {
    aNodeIsLost("cluster", YarnLongIT::killContainers);
  }

  private static void killContainers(String node) {
    yarn.cluster().containersOf(node).forEach(pid -> Processes.signal(pid, "KILL"));
  }

  /** What happens to the processes of a node's containers. */
  private interface Fate {
    void befall(String node);
  }

  /**
   * All ranks are stopped in a round; those of the node go on when its manager is killed. It isn't
   * the node of the ApplicationMaster, which in cluster mode is the driver.
   */
  private static void aNodeIsLost(String mode, Fate fate) throws Exception {
    yarn.cluster().restore();
    Map<String, String> settings = yarn.settings();
    settings.put("spark.task.maxFailures", "1");
    // All copies but one may be on the node.
    settings.put("spark.rejoin.input.replicas", "3");
    settings.put("spark.rejoin.lost.after", "240s");
    String stops = stops(0) + "|" + stops(1) + "|" + stops(2);
    try (Submission application = yarn.submit(mode, settings, ROUNDS, "", stops)) {
      for (int rule = 0; rule < 3; rule++) {
        String fired = Integer.toString(rule);
        application.await("fired", fired::equals, YarnApplications.LIMIT);
      }
      Map<String, Long> processes = application.processesOfRanks();
      boolean isClient = mode.equals("client");
      long itsMaster = processOf(isClient ? ".ExecutorLauncher" : ".ApplicationMaster");
      String master = yarn.cluster().nodeOf(itsMaster);
      List<String> lost = new ArrayList<>();
      List<Long> left = new ArrayList<>();
      String node = null;
      for (Map.Entry<String, Long> rank : new HashMap<>(processes).entrySet()) {
        String its = yarn.cluster().nodeOf(rank.getValue());
        if (its.equals(master)) {
          left.add(rank.getValue());
        } else {
          node = its;
          lost.add(rank.getKey());
          Processes.signal(rank.getValue(), "CONT");
        }
      }
      assertFalse(lost.isEmpty() || left.isEmpty(), () -> "ranks of one node: " + processes);
      long killed = System.nanoTime();
      yarn.cluster().killNode(node);
      fate.befall(node);
      application.await("lost", lost.get(0)::equals, YarnApplications.LIMIT);
      System.out.printf(
          "a rank is lost %d ms after the node%n", (System.nanoTime() - killed) / 1_000_000);
      left.forEach(pid -> Processes.signal(pid, "CONT"));
      application.awaitEnd(YarnApplications.LIMIT);
      System.out.printf(
          "the end is %d ms after that of the node%n", (System.nanoTime() - killed) / 1_000_000);
      application.assertSameModels(2);
      assertEquals(new TreeSet<>(lost), new TreeSet<>(application.facts("again")));
      assertEquals(List.of("0", "0"), application.facts("deaths"));
    }
  }

  private static String stops(int rank) {
    return Fault.of(rank).version(HELD_UP, 0).stop();
  }

  /** The process of the application that runs this class of Spark's. */
  private static long processOf(String main) {
    return yarn.cluster().processes().stream()
        .filter(found -> found.command().stream().anyMatch(word -> word.endsWith(main)))
        .findFirst()
        .orElseThrow()
        .pid();
  }

  @Test
  void a_container_that_another_queue_takes_by_preemption_comes_back_and_does_not_count()
      throws Exception {
    aContainerIsPreempted("client");
  }

  @Test
  void in_cluster_mode_a_container_that_is_preempted_comes_back_and_does_not_count()
      throws Exception {
    aContainerIsPreempted("cluster");
  }

  private static void aContainerIsPreempted(String mode) throws Exception {
    yarn.cluster().restore();
    // Three containers of half a node each, and no room for a fourth one.
    Map<String, String> large = yarn.settings();
    large.put("spark.executor.memoryOverhead", (YarnSettings.NODE_MEGABYTES / 2 - 640) + "m");
    large.put("spark.executor.instances", "3");
    large.put("spark.task.maxFailures", "1");
    large.put("spark.rejoin.lost.after", "240s");
    Map<String, String> other = new HashMap<>(large);
    other.put("spark.yarn.queue", YarnSettings.OTHER_QUEUE);
    other.put("spark.executor.instances", "1");
    try (Submission application = yarn.submit(mode, large, ROUNDS, "", stops(0))) {
      application.await("fired", "0"::equals, YarnApplications.LIMIT);
      long stopped = application.processesOfRanks().get("0");
      try (Submission second = yarn.submit("client", other, 1, ROUNDS)) {
        String lost = application.await("lost", any -> true, YarnApplications.LIMIT);
        Processes.signal(stopped, "CONT");
        second.awaitEnd(YarnApplications.LIMIT);
        application.awaitEnd(YarnApplications.LIMIT);
        application.assertSameModels(2);
        assertEquals(List.of(lost), application.facts("again"));
        assertEquals(List.of("0", "0"), application.facts("deaths"));
        assertPreempted(lost, application);
      }
    }
  }

  /**
   * So YARN and Spark said of the executor that a rank has lost. The number stands in the log of
   * the ApplicationMaster, which in cluster mode is the driver's.
   */
  private static void assertPreempted(String rank, Submission application) throws Exception {
    List<String> joined = application.facts("joined");
    joined.removeIf(each -> !each.startsWith(rank + " "));
    // The last is where it came back.
    String executor = joined.get(joined.size() - 2).split(" ")[1];
    String reason =
        application.await(
            "removed", gone -> gone.startsWith(executor + " "), YarnApplications.LIMIT);
    assertTrue(reason.endsWith(" was preempted."), reason);
    Matcher container = CONTAINER.matcher(reason);
    assertTrue(container.find(), reason);
    List<String> ends = new ArrayList<>();
    for (Path log : yarn.cluster().containerLogs("stderr")) {
      Files.readString(log)
          .lines()
          .filter(line -> line.contains("Completed container " + container.group()))
          .forEach(ends::add);
    }
    assertEquals(1, ends.size(), ends.toString());
    // Spark 4.1 leaves the bracket open.
    assertTrue(ends.get(0).matches(".*exit status: -102\\)?"), ends.toString());
  }
}
