package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.spark.RankFunction;
import io.rejoin.spark.RejoinEstimator;
import io.rejoin.spark.RejoinSpark;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Three workers of Spark's, each with one slot, stand for hosts: with one of them its executor is
 * gone, and no slot is left for its rank. Trainings wait at gates, so that what happens to them
 * does so in one order on any machine.
 */
@DisplayName("a training on Spark goes on with fewer workers, and grows when there are slots")
class ElasticSparkIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final String LONG = "rejoin.it.long";
  private static final int HOSTS = 3;
  private static final int ROWS = 100_000;
  private static final int VERSIONS = 12;
  private static final int ROUNDS = 16;

  /** The version or round in which a host is lost. */
  private static final int LOST = 3;

  /** The one in which another comes; of XGBoost's as a survivor counts what it computes. */
  private static final int CAME = 8;

  /** Versions that are made when the world has become smaller. */
  private static final int AFTERWARDS = 3;

  private static final Pattern COVER = Pattern.compile("cover=([0-9.eE+]+)");

  private static StandaloneCluster cluster;
  private static SparkSession session;

  @TempDir Path temporary;

  private final List<TrainingEvent> events = new ArrayList<>();
  private final Map<String, Long> processes = new ConcurrentHashMap<>();
  private final Map<Integer, String> executors = new ConcurrentHashMap<>();

  @BeforeAll
  static void start() throws IOException {
    Sessions.free();
    cluster = StandaloneCluster.start("elastic", 1);
    for (int host = 1; host < HOSTS; host++) {
      cluster.addWorker(1);
    }
    open(Map.of());
  }

  private static void open(Map<String, String> more) {
    SparkSession.Builder builder = SparkSession.builder().appName("rejoin tests, elastic");
    cluster.configuration().forEach(builder::config);
    more.forEach(builder::config);
    session = builder.getOrCreate();
  }

  @AfterAll
  static void stop() {
    session.stop();
    cluster.close();
  }

  @Test
  void rows_are_read_once_in_each_world_when_a_host_is_lost_and_another_comes() throws Exception {
    FileGate gate = new FileGate(temporary);
    LoseOneAndGetAnother course = new LoseOneAndGetAnother(gate);
    long[] model = within("RejoinSpark.train", () -> train(gate, course));
    hasEachRowOnce(model);
    List<Long> worlds = worlds(model);
    assertEquals(List.of(3L, 3L, 3L), worlds.subList(0, LOST), worlds.toString());
    assertEquals(
        "2".repeat(CAME + 1 - LOST),
        worlds.subList(LOST, CAME + 1).stream().map(String::valueOf).collect(Collectors.joining()));
    assertEquals(3, worlds.get(VERSIONS - 1), worlds.toString());
    assertEquals(List.of(2L, 3L), resized());
  }

  @Test
  void xgboost_trains_on_from_its_checkpoint_when_a_host_is_lost_and_another_comes()
      throws Exception {
    FileGate gate = new FileGate(temporary);
    LoseOneAndGetAnother course = new LoseOneAndGetAnother(gate);
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(session, HOSTS, ROUNDS);
    stock.setSubsample(1);
    stock.setCustomObj(new GatedObjective(gate, LOST, CAME));
    Dataset<Row> rows = Recipe.BINARY.data(session, HOSTS);
    XGBoostClassificationModel model = within("an estimator's fit", () -> fit(stock, rows, course));
    assertEquals(ROUNDS, model.nativeBooster().getNumBoostedRound());
    assertEquals(List.of(2L, 3L), resized());
    assertEquals(ROUNDS, model.summary().get().trainObjectiveHistory().length);
    assertEquals(Collections.nCopies(ROUNDS, (double) rows.count()), covers(model));
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void a_training_whose_world_could_change_and_does_not_has_the_model_of_a_fixed_one()
      throws Exception {
    String fixed = digest(Map.of());
    assertEquals(fixed, digest(Map.of("spark.rejoin.workers.min", "1")));
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void too_few_hosts_are_an_error_that_says_how_many_are_needed_and_which_rank_is_missing()
      throws Exception {
    FileGate gate = new FileGate(temporary);
    Map<String, String> settings =
        Map.of(
            "spark.rejoin.workers.min", "3",
            "spark.rejoin.elastic.timeout", "2s",
            "spark.rejoin.members.timeout", "8s");
    set(settings);
    LoseOneAndGetAnother course = new LoseOneAndGetAnother(gate);
    try {
      RejoinException failure =
          assertThrows(
              RejoinException.class,
              () -> within("a training with too few hosts", () -> run(gate, course)));
      assertEquals(RejoinException.Code.MEMBERS_MISSING, failure.code(), failure.text());
      assertTrue(
          failure.text().contains("rank 1 is missing")
              && failure.text().contains("3 workers are the fewest that it goes on with")
              && failure.text().contains("spark.rejoin.workers.min"),
          failure.text());
    } finally {
      unset(settings.keySet());
      cluster.addWorker(1);
      Executors.await(session, HOSTS);
    }
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void a_training_for_which_too_few_slots_come_begins_with_those_that_there_are() throws Exception {
    FileGate gate = new FileGate(temporary);
    gate.open(LOST);
    gate.open(CAME);
    set(elastic());
    try {
      Executors.await(session, HOSTS);
      Course calm =
          new Course() {
            @Override
            void take(TrainingEvent event) {}
          };
      long[] model = within("a training with too few slots", () -> run(gate, calm, HOSTS + 1));
      hasEachRowOnce(model);
      assertEquals(Collections.nCopies(VERSIONS, (long) HOSTS), worlds(model));
    } finally {
      unset(elastic().keySet());
    }
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void all_executors_are_lost_at_once_and_with_them_what_was_trained_which_is_said()
      throws Exception {
    FileGate gate = new FileGate(temporary);
    gate.open(CAME);
    Course course =
        new Course() {
          @Override
          void take(TrainingEvent event) {
            if (once(event, all(LOST))) {
              cluster.processes().forEach(one -> Processes.signal(one.pid(), "KILL"));
              gate.open(LOST);
            }
          }
        };
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> within("a training whose executors all die", () -> train(gate, course)));
    assertEquals(RejoinException.Code.UNRECOVERABLE, failure.code(), failure.text());
    assertTrue(failure.text().contains("no agent holds a usable checkpoint"), failure.text());
    Executors.await(session, HOSTS);
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void dynamic_allocation_brings_the_executors_for_the_most_workers() throws Exception {
    session.stop();
    open(
        Map.of(
            "spark.dynamicAllocation.enabled", "true",
            "spark.dynamicAllocation.shuffleTracking.enabled", "true",
            "spark.dynamicAllocation.minExecutors", "1",
            "spark.dynamicAllocation.maxExecutors", "3"));
    try {
      FileGate gate = new FileGate(temporary);
      gate.open(LOST);
      set(Map.of("spark.rejoin.workers.min", "1", "spark.rejoin.resize.interval", "0"));
      Course course =
          new Course() {
            @Override
            void take(TrainingEvent event) {
              if (once(event, one -> one.kind() == Kind.SPARE_STANDS_BY)) {
                gate.open(CAME);
              }
            }
          };
      long[] model = within("a training that grows", () -> run(gate, course, 2));
      hasEachRowOnce(model);
      assertEquals(List.of(3L), resized());
    } finally {
      session.stop();
      open(Map.of());
    }
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void a_rank_whose_executor_is_told_of_its_end_and_that_has_no_place_leaves_without_a_death()
      throws Exception {
    session.stop();
    open(Map.of("spark.decommission.enabled", "true"));
    try {
      Executors.await(session, HOSTS);
      set(elastic());
      AtomicReference<String> victim = new AtomicReference<>();
      Course course =
          new Course() {
            private final Predicate<TrainingEvent> allAreThere = all(LOST);

            @Override
            void take(TrainingEvent event) {
              if (once(event, allAreThere)) {
                victim.set(executors.get(1));
                Processes.signal(processes.get(victim.get()), "PWR");
              }
            }
          };
      long[] rounds =
          within(
              "a training whose rank leaves",
              () -> run(ElasticSparkIT::untilSmaller, course, HOSTS));
      assertEquals((rounds[1] + rounds[2]) * ROWS, rounds[0], "each row once in each version");
      assertTrue(rounds[1] > LOST && rounds[2] == AFTERWARDS, rounds[1] + " and " + rounds[2]);
      TrainingEvent smaller = first(Kind.RESIZED);
      assertEquals(2, smaller.number("world"));
      assertTrue(smaller.text("reason").startsWith("rank 1 leaves"), smaller.text("reason"));
      TrainingEvent released = first(Kind.TASK_RELEASED);
      assertEquals(victim.get(), released.text("executor"));
      assertEquals(0, released.number("task"), "the first try of its task");
      synchronized (events) {
        List<Kind> before =
            events.subList(0, events.indexOf(smaller)).stream()
                .map(TrainingEvent::kind)
                .collect(Collectors.toList());
        assertTrue(before.contains(Kind.EXECUTOR_LEAVES), before.toString());
        assertTrue(!before.contains(Kind.RANK_LOST), before.toString());
      }
    } finally {
      session.stop();
      open(Map.of());
    }
  }

  /** What happens to a training, by its events. */
  private abstract class Course {
    private final Set<Integer> entered = new TreeSet<>();
    private boolean isDone;

    abstract void take(TrainingEvent event) throws IOException;

    /** The first event of this kind. */
    boolean once(TrainingEvent event, Predicate<TrainingEvent> moment) {
      if (isDone || !moment.test(event)) {
        return false;
      }
      isDone = true;
      return true;
    }

    /** The moment at which all ranks are in this version. */
    Predicate<TrainingEvent> all(int version) {
      return event ->
          event.kind() == Kind.VERSION_ENTERED
              && event.number("version") == version
              && entered.add(event.rank().getAsInt())
              && entered.size() == HOSTS;
    }
  }

  /** A host is lost in one version; when the world is smaller another one comes. */
  private final class LoseOneAndGetAnother extends Course {
    private final FileGate gate;
    private final Predicate<TrainingEvent> allAreThere = all(LOST);
    private int world = HOSTS;

    LoseOneAndGetAnother(FileGate gate) {
      this.gate = gate;
    }

    @Override
    void take(TrainingEvent event) throws IOException {
      if (once(event, allAreThere)) {
        cluster.killHostOf(processes.get(executors.get(1)));
        gate.open(LOST);
      }
      if (event.kind() == Kind.RESIZED) {
        boolean isSmaller = event.number("world") < world;
        world = (int) event.number("world");
        if (isSmaller) {
          cluster.addWorker(1);
        }
      }
      if (event.kind() == Kind.SPARE_STANDS_BY && world < HOSTS) {
        gate.open(CAME);
      }
    }
  }

  private void take(TrainingEvent event, Course course) {
    synchronized (events) {
      events.add(event);
    }
    if (event.kind() == Kind.AGENT_JOINED) {
      processes.put(event.text("executor"), event.number("pid"));
    } else if (event.kind() == Kind.RANK_JOINED) {
      executors.put(event.rank().getAsInt(), event.text("executor"));
    }
    try {
      course.take(event);
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
  }

  private long[] train(FileGate gate, Course course) {
    set(elastic());
    try {
      return run(gate, course);
    } finally {
      unset(elastic().keySet());
    }
  }

  private long[] run(FileGate gate, Course course) {
    return run(gate, course, HOSTS);
  }

  private long[] run(FileGate gate, Course course, int workers) {
    return run((ranks, rows) -> sums(ranks, rows, gate), course, workers);
  }

  private long[] run(RankFunction<Long, long[]> function, Course course, int workers) {
    Executors.await(session, 1);
    List<Long> all = LongStream.range(0, ROWS).boxed().collect(Collectors.toList());
    Dataset<Long> numbers = session.createDataset(all, Encoders.LONG()).repartition(workers);
    return RejoinSpark.train(
        numbers,
        workers,
        function,
        new RejoinSpark.Options().eventListener(event -> take(event, course)));
  }

  private XGBoostClassificationModel fit(
      XGBoostClassifier stock, Dataset<Row> rows, Course course) {
    Map<String, String> settings = new LinkedHashMap<>(elastic());
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    set(settings);
    try {
      RejoinEstimator<XGBoostClassificationModel> ours = new RejoinEstimator<>(stock);
      ours.setEventListener(event -> take(event, course));
      return ours.fit(rows);
    } finally {
      unset(settings.keySet());
    }
  }

  /** How many rows each tree was made of, at its root: every second derivative is 1. */
  private static List<Double> covers(XGBoostClassificationModel model) throws Exception {
    List<Double> covers = new ArrayList<>();
    for (String tree : model.nativeBooster().getModelDump("", true, "text")) {
      Matcher found = COVER.matcher(tree);
      assertTrue(found.find(), tree);
      covers.add(Double.valueOf(found.group(1)));
    }
    return covers;
  }

  private static Map<String, String> elastic() {
    return Map.of(
        "spark.rejoin.workers.min", "1",
        "spark.rejoin.elastic.timeout", "2s",
        "spark.rejoin.resize.interval", "0");
  }

  private String digest(Map<String, String> settings) throws Exception {
    RejoinRun run = Calm.run(session, Recipe.BINARY, HOSTS, 5);
    settings.forEach(run::setting);
    return within("an undisturbed fit", () -> run.train().digest());
  }

  /**
   * Sums over all rows, once for each version: how many there are, their sum, the sum of their
   * squares. Behind them the world of each version.
   */
  private static long[] sums(Communicator ranks, Iterable<Long> rows, FileGate gate) {
    Communicator.Loaded start = ranks.load();
    long[] model = new long[3 + VERSIONS];
    start.model().ifPresent(bytes -> ByteBuffer.wrap(bytes).asLongBuffer().get(model));
    for (int version = start.version(); version < VERSIONS; version++) {
      if (version == LOST || version == CAME) {
        gate.pass(version);
      }
      long[] sums = new long[3];
      for (long row : rows) {
        sums[0]++;
        sums[1] += row;
        sums[2] += row * row;
      }
      ranks.allreduce(sums, Reduction.SUM);
      for (int i = 0; i < sums.length; i++) {
        model[i] += sums[i];
      }
      model[3 + version] = ranks.world();
      ByteBuffer bytes = ByteBuffer.allocate(model.length * Long.BYTES);
      bytes.asLongBuffer().put(model);
      ranks.checkpoint(bytes.array());
    }
    return model;
  }

  /**
   * Counts rows in each version until the world is smaller, and in some versions more: the rows
   * that were counted, and the versions of the larger world and of the smaller one.
   */
  private static long[] untilSmaller(Communicator ranks, Iterable<Long> rows) {
    long[] model = new long[3];
    Communicator.Loaded start = ranks.load();
    start.model().ifPresent(bytes -> ByteBuffer.wrap(bytes).asLongBuffer().get(model));
    while (model[2] < AFTERWARDS) {
      long[] count = new long[1];
      rows.forEach(row -> count[0]++);
      ranks.allreduce(count, Reduction.SUM);
      model[0] += count[0];
      model[ranks.world() == HOSTS ? 1 : 2]++;
      ByteBuffer bytes = ByteBuffer.allocate(model.length * Long.BYTES);
      bytes.asLongBuffer().put(model);
      ranks.checkpoint(bytes.array());
    }
    return model;
  }

  private TrainingEvent first(Kind kind) {
    synchronized (events) {
      return events.stream().filter(event -> event.kind() == kind).findFirst().orElseThrow();
    }
  }

  private static void hasEachRowOnce(long[] model) {
    long sum = LongStream.range(0, ROWS).sum();
    long squares = LongStream.range(0, ROWS).map(row -> row * row).sum();
    assertArrayEquals(
        new long[] {(long) VERSIONS * ROWS, VERSIONS * sum, VERSIONS * squares},
        new long[] {model[0], model[1], model[2]});
  }

  private static List<Long> worlds(long[] model) {
    return LongStream.of(model).skip(3).boxed().collect(Collectors.toList());
  }

  private List<Long> resized() {
    synchronized (events) {
      return events.stream()
          .filter(event -> event.kind() == Kind.RESIZED)
          .map(event -> event.number("world"))
          .collect(Collectors.toList());
    }
  }

  private <T> T within(String what, Callable<T> work) throws Exception {
    Executors.await(session, 1);
    return Deadline.within(LIMIT, what, cluster, work);
  }

  private static void set(Map<String, String> settings) {
    settings.forEach((key, value) -> session.conf().set(key, value));
  }

  private static void unset(Set<String> settings) {
    settings.forEach(session.conf()::unset);
  }
}
