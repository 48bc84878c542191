package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.Attacker.Manner;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * A training whose every port is attacked by another process of the host, while driver and
 * executors may have few files open and one executor is killed.
 */
@DisplayName("a training under attack by connections without the secret")
class AttackedIT {
  private static final Duration LIMIT = Duration.ofSeconds(200);
  private static final int WORKERS = 3;
  private static final int ROUNDS = 10;

  /** {@code ulimit -n} of most systems. */
  private static final int DESCRIPTORS = 1024;

  /** The tracker, and each rank's agent and bridge. */
  private static final int PORTS = 1 + 2 * WORKERS;

  /**
   * Many times what there are descriptors for; as many as one attacker's descriptors suffice for.
   */
  private static final boolean LONG = Boolean.getBoolean("rejoin.it.long");

  private static final int EACH = LONG ? 2_000 : 800;

  /**
   * Where they are made again all the time: the attacker looks at its victims' descriptors, too.
   */
  private static final int FEWER = 400;

  private static final List<Case> SHORT =
      List.of(new Case("auto", Manner.HELD), new Case("off", Manner.FLOOD));

  private static final int REPETITIONS = LONG ? Integer.getInteger("rejoin.it.repetitions", 5) : 1;

  /** How the native library's lines begin, behind time and level. */
  private static final String OURS = " rejoin: ";

  /**
   * What an attack may add to an executor's log: one line each for the first stranger at the agent
   * and at the bridge, and some where descriptors run out and are there again.
   */
  private static final int LINES = 6;

  /** By {@code spark.rejoin.hook}: the same whatever the attack that is beside it. */
  private static final Map<String, List<Killed>> UNDISTURBED = new LinkedHashMap<>();

  private static final Map<Case, List<Killed>> DISTURBED = new LinkedHashMap<>();

  private static Descriptors few;

  @BeforeAll
  static void few_files_may_be_open() {
    few =
        Descriptors.limited(
            DESCRIPTORS, ProcessHandle.current().pid(), Sessions.cluster().workerProcess().pid());
  }

  @AfterAll
  static void as_many_as_before() {
    Sessions.free();
    few.close();
    DISTURBED.forEach(AttackedIT::tell);
  }

  private static void tell(Case one, List<Killed> all) {
    Killed calm = middle(UNDISTURBED.get(one.hook()));
    Killed attacked = middle(all);
    System.out.printf(
        Locale.ROOT,
        "%s%s, %d connections at each port: back after %d ms, undisturbed %d, %.2f; %d log lines,"
            + " %d%n",
        LONG ? "[long] " : "",
        one,
        each(one.manner()),
        attacked.awayMillis(),
        calm.awayMillis(),
        (double) attacked.awayMillis() / calm.awayMillis(),
        attacked.lines(),
        calm.lines());
  }

  /** Executors that don't raise their limit, as a JVM does by itself. */
  private static SparkSession session() {
    return Sessions.of(
        Sessions.Shape.SINGLE,
        Map.of(Sessions.EXECUTOR_OPTIONS, Sessions.executorOptions() + " -XX:-MaxFDLimit"));
  }

  /** How XGBoost's collectives go, and the attack. */
  private record Case(String hook, Manner manner) {
    @Override
    public String toString() {
      return manner + ", spark.rejoin.hook=" + hook;
    }
  }

  /**
   * What came of a training in which an executor was killed.
   *
   * @param awayMillis from the kill until the rank works with the others again
   * @param lines that our log has got in the files of all executors
   */
  private record Killed(String digest, long awayMillis, int lines) {}

  @TestFactory
  Stream<DynamicTest> a_killed_executor_comes_back_to_the_same_model() {
    return Stream.of("auto", "off")
        .flatMap(hook -> Stream.of(Manner.values()).map(manner -> new Case(hook, manner)))
        .filter(one -> LONG || SHORT.contains(one))
        .map(one -> DynamicTest.dynamicTest(one.toString(), () -> check(one)));
  }

  private static void check(Case one) throws Exception {
    List<Killed> undisturbed = UNDISTURBED.computeIfAbsent(one.hook(), any -> new ArrayList<>());
    List<Killed> disturbed = DISTURBED.computeIfAbsent(one, any -> new ArrayList<>());
    // In turn: what else the machine does is the same for both.
    for (int each = 0; each < REPETITIONS; each++) {
      undisturbed.add(train(one.hook(), null));
      disturbed.add(train(one.hook(), one.manner()));
    }
    Killed calm = middle(undisturbed);
    Killed attacked = middle(disturbed);
    assertEquals(calm.digest(), attacked.digest());
    int most = calm.lines() + LINES * (WORKERS + 1);
    assertTrue(attacked.lines() <= most, attacked.lines() + " lines in logs, " + calm.lines());
  }

  private static Killed middle(List<Killed> all) {
    List<Killed> sorted = new ArrayList<>(all);
    sorted.sort(Comparator.comparingLong(Killed::awayMillis));
    return sorted.get(sorted.size() / 2);
  }

  private static Killed train(String hook, Manner manner) throws Exception {
    SparkSession spark = session();
    for (Processes.Found executor : Sessions.cluster().processes()) {
      assertEquals(DESCRIPTORS, Descriptors.most(executor.pid()), executor.toString());
    }
    warm(spark);
    int before = lines();
    RejoinRun run =
        new RejoinRun(spark, Recipe.BINARY, WORKERS, ROUNDS)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            .setting("spark.rejoin.hook", hook)
            // The rank is frozen until the attack is there, and is known as dead by its connection.
            .setting("spark.rejoin.lost.after", "20min")
            .fault(Fault.of(1).version(4, 5_000).stop());
    AtomicLong killed = new AtomicLong();
    AtomicLong made = new AtomicLong();
    Outcome outcome;
    try (Attack attack = manner == null ? null : attack(manner)) {
      run.listen(
          event -> {
            if (event.kind() == Kind.FAULT_FIRED) {
              if (attack != null) {
                attack.await(PORTS);
                made.set(attack.made());
              }
              killed.set(System.nanoTime());
            }
          });
      new FaultCase.ByEvent(run).when(event -> event.kind() == Kind.FAULT_FIRED, 1, "KILL");
      String what = (manner == null ? "undisturbed" : manner) + " " + hook;
      outcome = Deadline.within(LIMIT, what, Sessions.cluster(), run::train);
      assertNull(outcome.trouble());
      assertTrue(run.signals(), "nothing was killed: " + run.events());
      if (attack != null) {
        // It went on through the recovery, and to the end.
        assertTrue(attack.made() > made.get(), "no connection after the kill: " + attack);
      }
    }
    assertEquals(1, of(run, Kind.RANK_LOST).size(), "events: " + run.events());
    int refused = of(run, Kind.STRANGER_REFUSED).size();
    assertTrue(refused <= PORTS + 2, refused + " refusals are reported: " + run.events());
    long back = of(run, Kind.CAUGHT_UP).get(0).atNanos();
    long away = TimeUnit.NANOSECONDS.toMillis(back - killed.get());
    return new Killed(outcome.digest(), away, lines() - before);
  }

  /**
   * All executors, also the one that has replaced a killed one: a JVM that runs its first training
   * takes half a second and more for that, whoever attacks.
   */
  private static void warm(SparkSession spark) throws Exception {
    RejoinRun run = new RejoinRun(spark, Recipe.BINARY, WORKERS + 1, 2);
    Outcome outcome = Deadline.within(LIMIT, "a warm-up", Sessions.cluster(), run::train);
    assertNull(outcome.trouble());
  }

  private static int each(Manner manner) {
    return manner == Manner.HELD || LONG ? EACH : FEWER;
  }

  private static Attack attack(Manner manner) throws IOException {
    int each = each(manner);
    int perSecond = manner == Manner.HELD ? each * PORTS : LONG ? 5_000 : 1_000;
    return new Attack(manner, each, perSecond);
  }

  private static List<TrainingEvent> of(RejoinRun run, Kind kind) {
    return run.events().stream().filter(event -> event.kind() == kind).collect(Collectors.toList());
  }

  /** Lines of our own in what the executors have written to their standard error. */
  private static int lines() throws IOException {
    int lines = 0;
    try (Stream<Path> all = Files.walk(Sessions.cluster().work().folder("executors"))) {
      for (Path file : all.filter(one -> one.endsWith("stderr")).collect(Collectors.toList())) {
        String text = Files.readString(file, StandardCharsets.ISO_8859_1);
        lines += (int) text.lines().filter(line -> line.contains(OURS)).count();
      }
    }
    return lines;
  }
}
