package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Four hosts with a network each, whose packets are dropped: Spark's master and Worker can't end an
 * executor there, and by itself Spark would find out after minutes. Needs root.
 */
@DisplayName("a host that is cut off from the network")
class NetworkCutIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int HOSTS = 4;
  private static final int WORKERS = 3;
  private static final int VICTIM = 1;
  private static final int ROUND = 9;

  private static HostNetwork network;
  private static StandaloneCluster cluster;
  private static SparkSession spark;

  @BeforeAll
  static void start() {
    Sessions.free();
    network = HostNetwork.of(HOSTS);
    cluster = StandaloneCluster.onHosts("network-cut", network);
    SparkSession.Builder builder = SparkSession.builder().appName("rejoin tests, network");
    cluster.configuration().forEach(builder::config);
    spark =
        builder
            .config("spark.cores.max", HOSTS)
            // What Spark finds by itself would come later than the limit.
            .config("spark.network.timeout", "1000s")
            .getOrCreate();
  }

  @AfterAll
  static void stop() {
    if (spark != null) {
      spark.stop();
    }
    if (cluster != null) {
      cluster.close();
    }
    if (network != null) {
      network.close();
    }
  }

  @Test
  void is_lost_its_rank_is_retried_elsewhere_and_its_executor_ends_when_it_is_back()
      throws Exception {
    survives(0);
  }

  @Test
  void gives_its_rank_to_a_spare_without_waiting_for_spark() throws Exception {
    survives(1);
  }

  private static void survives(int spares) throws Exception {
    Executors.await(spark, HOSTS);
    String expected = Deadline.within(LIMIT, "undisturbed", cluster, run(spares)::train).digest();
    Executors.await(spark, HOSTS);
    RejoinRun run = run(spares).fault(Fault.of(VICTIM).version(ROUND, 1_000).stop());
    Cut cut = new Cut();
    run.listen(cut);
    Outcome outcome = Deadline.within(LIMIT, "a host is cut off", cluster, run::train);
    List<TrainingEvent> events = run.events();
    assertNull(outcome.trouble(), () -> "events: " + events);
    assertEquals(expected, outcome.digest(), () -> "events: " + events);
    TrainingEvent lost = first(events, event -> event.kind() == Kind.RANK_LOST);
    assertEquals(VICTIM, lost.number("rank"), lost.toString());
    TrainingEvent back =
        first(events, event -> event.kind() == Kind.RANK_JOINED && is(event, VICTIM, 1));
    assertNotEquals(lost.text("executor"), back.text("executor"));
    assertEquals(spares, count(events, Kind.SPARE_TOOK), () -> "events: " + events);
    // Those that could be reached never began anew.
    assertEquals(WORKERS + 1, count(events, Kind.RANK_JOINED), () -> "events: " + events);
    TrainingEvent works = first(events, event -> event.kind() == Kind.CAUGHT_UP);
    System.out.println(
        "from the cut to the loss "
            + millis(cut.event, lost)
            + " ms, until all work together again "
            + millis(cut.event, works)
            + " ms");
    // Spark took it for dead meanwhile: when it is within reach again it ends itself.
    assertTrue(cut.mended.await(LIMIT.toSeconds(), TimeUnit.SECONDS), "the cable is plugged in");
    ProcessHandle.of(cut.process)
        .ifPresent(
            process -> process.onExit().orTimeout(LIMIT.toSeconds(), TimeUnit.SECONDS).join());
  }

  /** Cuts off the victim's host when it stops in a round, has it go on, and mends it at the end. */
  private static final class Cut implements java.util.function.Consumer<TrainingEvent> {
    private final Map<String, Long> processOf = new HashMap<>();
    private final CountDownLatch mended = new CountDownLatch(1);
    private String executor;
    private TrainingEvent event;
    private long process;
    private int host;

    @Override
    public void accept(TrainingEvent now) {
      switch (now.kind()) {
        case AGENT_JOINED -> processOf.put(now.text("executor"), now.number("pid"));
        case RANK_JOINED -> executor = is(now, VICTIM, 0) ? now.text("executor") : executor;
        case FAULT_FIRED -> {
          event = now;
          process = processOf.get(executor);
          host = cluster.hostOf(process);
          network.cut(host);
          Processes.signal(process, "CONT");
        }
        case CAUGHT_UP -> {
          network.mend(host);
          mended.countDown();
        }
        default -> {}
      }
    }
  }

  private static RejoinRun run(int spares) {
    return Calm.run(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS)
        .setting("spark.rejoin.spares", Integer.toString(spares));
  }

  private static boolean is(TrainingEvent event, int rank, int incarnation) {
    return event.number("rank") == rank && event.number("incarnation") == incarnation;
  }

  private static long count(List<TrainingEvent> events, Kind kind) {
    return events.stream().filter(event -> event.kind() == kind).count();
  }

  private static TrainingEvent first(List<TrainingEvent> events, Predicate<TrainingEvent> which) {
    return events.stream()
        .filter(which)
        .findFirst()
        .orElseThrow(() -> new AssertionError("it is missing from " + events));
  }

  private static long millis(TrainingEvent from, TrainingEvent to) {
    return (to.atNanos() - from.atNanos()) / 1_000_000;
  }
}
