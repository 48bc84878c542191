package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.NativeSockets.Connection;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/** What an administrator has to open between hosts, and which addresses may be used. */
@DisplayName("addresses and ports")
class AddressesIT {
  private static final Duration LIMIT = Duration.ofSeconds(200);
  private static final int WORKERS = 3;

  /** Ports of a range. */
  private record Range(int first, int last) {
    boolean has(Connection connection) {
      return Stream.of(connection.port(), connection.peer())
          .anyMatch(port -> port >= first && port <= last);
    }

    @Override
    public String toString() {
      return first + "-" + last;
    }
  }

  @Test
  void processes_are_connected_by_the_ports_that_are_set_and_by_no_others() throws Exception {
    Range tracker = new Range(21_400, 21_409);
    Range agents = new Range(21_410, 21_449);
    List<Connection> seen = new CopyOnWriteArrayList<>();
    RejoinRun run =
        new RejoinRun(Sessions.of(Sessions.Shape.SINGLE), Recipe.BINARY, WORKERS, 10)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            .setting("spark.rejoin.tracker.ports", tracker.toString())
            .setting("spark.rejoin.agent.ports", agents.toString())
            // Without shared memory all that ranks send each other goes over links.
            .setting("spark.rejoin.hook", "off")
            .setting("spark.rejoin.lost.after", "20min")
            .fault(Fault.of(1).version(4, 5_000).stop());
    run.listen(
        event -> {
          // Before the kill, and when the rank is back.
          if (event.kind() == Kind.FAULT_FIRED || event.kind() == Kind.CAUGHT_UP) {
            seen.addAll(betweenProcesses());
          }
        });
    new FaultCase.ByEvent(run).when(event -> event.kind() == Kind.FAULT_FIRED, 1, "KILL");
    Deadline.within(LIMIT, "ports that are set", Sessions.cluster(), run::train);
    assertTrue(run.signals(), "nothing was killed: " + run.events());
    List<Connection> others =
        seen.stream()
            .filter(each -> !tracker.has(each) && !agents.has(each))
            .collect(Collectors.toList());
    assertEquals(List.of(), others, "connections besides: " + seen);
    // Each is seen from both ends.
    long toTracker = seen.stream().filter(tracker::has).count();
    long amongAgents = seen.stream().filter(agents::has).count();
    assertTrue(toTracker >= 2 * WORKERS && amongAgents >= 2 * WORKERS, seen.toString());
  }

  /** The connections of native code between processes of the cluster, the driver among them. */
  private static List<Connection> betweenProcesses() {
    Map<Long, List<Connection>> all = new HashMap<>();
    long driver = ProcessHandle.current().pid();
    all.put(driver, NativeSockets.connections(driver));
    for (Processes.Found executor : Sessions.cluster().processes()) {
      all.put(executor.pid(), NativeSockets.connections(executor.pid()));
    }
    List<Connection> between = new ArrayList<>();
    for (List<Connection> one : all.values()) {
      one.stream()
          .filter(each -> !one.contains(new Connection(each.peer(), each.port())))
          .forEach(between::add);
    }
    return between;
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void a_killed_executor_is_survived_where_all_addresses_are_of_ipv6(@TempDir Path temporary)
      throws Exception {
    InetAddress loopback = Inet6Address.getByName("::1");
    assumeTrue(NetworkInterface.getByInetAddress(loopback) != null, "no ::1 on this machine");
    String prefer = "java.net.preferIPv6Addresses";
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.put("spark.master", "local-cluster[4,1,900]");
    settings.put("spark.driver.host", "[::1]");
    settings.put("spark.driver.bindAddress", "[::1]");
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    settings.put(
        Sessions.EXECUTOR_OPTIONS,
        settings.get(Sessions.EXECUTOR_OPTIONS) + " -D" + prefer + "=true");
    settings.remove("spark.executor.cores");
    String kill = Fault.of(1).version(5, 10_000).kill();
    JavaProcess process =
        new JavaProcess("driver", FitDriver.class, Recipe.BINARY.name(), "3", "10", "", kill)
            .property(prefer, "true")
            .environment("SPARK_LOCAL_IP", "::1")
            .environment("SPARK_LOCAL_HOSTNAME", "[::1]");
    try (FitProcess driver = new FitProcess(process, settings, temporary.toString())) {
      assertEquals("model, again 1, model", driver.trainings(LIMIT.toSeconds()));
      assertEquals("[::1]", driver.await("host", there -> true, 1));
    }
  }
}
