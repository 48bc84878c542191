package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.spark.RankFunction;
import io.rejoin.spark.RejoinSpark;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Executors are told of their end by SIGPWR, as spot instances are. A rank is stopped in the round
 * in which that happens until the notice is seen, and another one after the checkpoint that it
 * brings until the rank has left: so all happens in that order, however fast the machine is.
 */
@DisplayName("an executor that is told of its end is left before it")
class SpotNoticeIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final String LONG = "rejoin.it.long";
  private static final int WORKERS = 3;

  /** One on each executor, so that no slot is free. */
  private static final int EVERYWHERE = 4;

  private static final int MANY_ROUNDS = 300;

  /** Of a function, and the one in which the notice comes. */
  private static final int STEPS = 10;

  private static final int NOTICED = 3;

  /** The rank whose executor is told, the one that is stopped before, and the one after. */
  private static final int VICTIM = 1;

  private static final int BEFORE = 0;
  private static final int AFTER = 2;

  /** Up to XGBoost 3.2 no checkpoint is taken before its turn. */
  private static final boolean IS_EARLY =
      !RejoinRun.xgboostVersion().startsWith("3.1")
          && !RejoinRun.xgboostVersion().startsWith("3.2");

  @TempDir Path temporary;

  private final AtomicLong signalled = new AtomicLong();
  private final AtomicReference<String> counted = new AtomicReference<>();

  @Test
  void its_rank_goes_to_a_free_slot_with_the_checkpoint_of_that_round_and_nothing_counts()
      throws Exception {
    Calm calm = undisturbed();
    RejoinRun run = noticed(calm);
    wake(run, AFTER, event -> event.kind() == Kind.RANK_LOST);
    try (Logs logs = Logs.collectAll()) {
      train(run, calm);
      assertEquals(List.of(), logs.with("spark.decommission.enabled is off"));
    }
    assertMoved(run);
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void its_rank_goes_to_the_spare() throws Exception {
    Calm calm = undisturbed();
    RejoinRun run = noticed(calm).setting("spark.rejoin.spares", "1");
    wake(run, AFTER, event -> event.kind() == Kind.RANK_LOST);
    train(run, calm);
    assertMoved(run);
    TrainingEvent took = first(run, event -> event.kind() == Kind.SPARE_TOOK);
    assertEquals(VICTIM, took.number("rank"));
    assertEquals(took.text("executor"), back(run).text("executor"));
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void without_a_place_its_rank_trains_on_and_the_end_is_a_death_that_does_not_count()
      throws Exception {
    Calm calm = undisturbed(EVERYWHERE);
    RejoinRun run = noticed(calm, EVERYWHERE);
    // It has trained on to the checkpoint that the notice has brought.
    FaultCase.ByEvent events = new FaultCase.ByEvent(run);
    events.when(event -> fired(event, 1), VICTIM, "KILL");
    wake(run, AFTER, event -> event.kind() == Kind.RANK_LOST);
    train(run, calm);
    assertEquals(List.of(), all(run, event -> event.kind() == Kind.RANK_MOVED));
    assertEquals(VICTIM, back(run).number("rank"));
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void one_that_ends_at_once_dies_as_any_other() throws Exception {
    Calm calm = undisturbed();
    RejoinRun run = run(FaultCase.ROUNDS, WORKERS).fault(stopped(calm, BEFORE));
    FaultCase.ByEvent events = new FaultCase.ByEvent(run);
    events.when(event -> fired(event, 0), VICTIM, "PWR");
    events.when(event -> event.kind() == Kind.EXECUTOR_LEAVES, VICTIM, "KILL");
    wake(run, BEFORE, event -> event.kind() == Kind.RANK_LOST);
    train(run, calm);
    assertEquals(List.of(), all(run, event -> event.kind() == Kind.RANK_MOVED));
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void where_all_that_train_are_told_the_round_is_in_the_durable_folder_while_they_are_there()
      throws Exception {
    Calm calm = undisturbed(EVERYWHERE);
    // Rounds enough that the notices are known long before the end.
    RejoinRun longer = run(MANY_ROUNDS, EVERYWHERE);
    String digest =
        Deadline.within(LIMIT, "undisturbed", Sessions.cluster(), longer::train).digest();
    RejoinRun run =
        run(MANY_ROUNDS, EVERYWHERE)
            .setting("spark.rejoin.durable", temporary.toUri().toString())
            .setting("spark.rejoin.durable.every", "1000")
            .fault(stopped(calm, BEFORE))
            .fault(afterTheCheckpoint(calm, VICTIM));
    FaultCase.ByEvent events = new FaultCase.ByEvent(run);
    for (int rank = 0; rank < EVERYWHERE; rank++) {
      events.when(event -> fired(event, 0), rank, "PWR");
    }
    // The one that is stopped hears it when it is woken, and another one is held up until then.
    AtomicInteger told = new AtomicInteger();
    events.when(
        event -> event.kind() == Kind.EXECUTOR_LEAVES && told.incrementAndGet() == EVERYWHERE - 1,
        BEFORE,
        "CONT");
    AtomicInteger known = new AtomicInteger();
    events.when(
        event -> event.kind() == Kind.EXECUTOR_LEAVES && known.incrementAndGet() == EVERYWHERE,
        VICTIM,
        "CONT");
    AtomicReference<List<String>> files = new AtomicReference<>(List.of());
    run.listen(
        event -> {
          if (event.kind() == Kind.DURABLE_WRITTEN && files.get().isEmpty()) {
            files.set(checkpoints());
          }
        });
    train(run, digest);
    assertFalse(files.get().isEmpty(), "no checkpoint was in the folder");
    assertEquals(List.of(), all(run, event -> event.kind() == Kind.RANK_LOST));
    System.out.println("durable: " + files.get());
  }

  @Test
  @EnabledIfSystemProperty(named = LONG, matches = "true")
  void the_rank_of_a_function_moves_after_the_functions_own_next_checkpoint() throws Exception {
    List<TrainingEvent> events = new CopyOnWriteArrayList<>();
    Map<String, Long> processOf = new ConcurrentHashMap<>();
    RejoinSpark.Options options =
        new RejoinSpark.Options()
            .eventListener(
                event -> {
                  events.add(event);
                  follow(event, events, processOf);
                });
    String folder = temporary.toString();
    RankFunction<Long, long[]> function = (ranks, rows) -> steps(ranks, rows, folder);
    long[] model =
        Deadline.within(
            LIMIT,
            "a function with a spot notice",
            Sessions.cluster(),
            () -> RejoinSpark.train(session().range(300), WORKERS, function, options));
    assertEquals(300 * STEPS * (STEPS + 1) / 2, model[0]);
    Predicate<TrainingEvent> isBack =
        event -> event.kind() == Kind.RANK_JOINED && event.number("incarnation") == 1;
    List<Kind> order =
        events.stream()
            .filter(
                event ->
                    event.kind() == Kind.EXECUTOR_LEAVES
                        || event.kind() == Kind.RANK_MOVED
                        || event.kind() == Kind.RANK_LOST
                        || isBack.test(event))
            .map(TrainingEvent::kind)
            .collect(Collectors.toList());
    assertEquals(
        List.of(Kind.EXECUTOR_LEAVES, Kind.RANK_MOVED, Kind.RANK_LOST, Kind.RANK_JOINED), order);
  }

  /** The victim is told in its fourth step; files tell the others how far that is. */
  private void follow(
      TrainingEvent event, List<TrainingEvent> events, Map<String, Long> processOf) {
    switch (event.kind()) {
      case AGENT_JOINED -> processOf.put(event.text("executor"), event.number("pid"));
      case VERSION_ENTERED -> {
        if (event.number("rank") == VICTIM && event.number("version") == NOTICED) {
          String executor =
              events.stream()
                  .filter(one -> one.kind() == Kind.RANK_JOINED && one.number("rank") == VICTIM)
                  .findFirst()
                  .orElseThrow()
                  .text("executor");
          Processes.signal(processOf.get(executor), "PWR");
        }
      }
      case EXECUTOR_LEAVES -> Signs.create(temporary.resolve("seen"));
      case RANK_LOST -> Signs.create(temporary.resolve("left"));
      default -> {}
    }
  }

  private static long[] steps(Communicator ranks, Iterable<Long> rows, String folder) {
    long mine = StreamSupport.stream(rows.spliterator(), false).count();
    Communicator.Loaded start = ranks.load();
    long[] model = {start.model().map(bytes -> ByteBuffer.wrap(bytes).getLong()).orElse(0L)};
    for (int step = start.version(); step < STEPS; step++) {
      if (step == NOTICED && ranks.rank() == BEFORE) {
        Signs.await(Path.of(folder, "seen"));
      }
      if (step == NOTICED + 1 && ranks.rank() == AFTER) {
        Signs.await(Path.of(folder, "left"));
      }
      long[] sums = {mine * (step + 1)};
      ranks.allreduce(sums, Reduction.SUM);
      model[0] += sums[0];
      ranks.checkpoint(ByteBuffer.allocate(Long.BYTES).putLong(model[0]).array());
    }
    return model;
  }

  /** Files as signs between processes. */
  private static final class Signs {
    static void create(Path file) {
      try {
        Files.createFile(file);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    static void await(Path file) {
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(100);
      while (!Files.exists(file)) {
        if (System.nanoTime() > deadline) {
          throw new IllegalStateException(file + " doesn't come");
        }
        LockSupport.parkNanos(5_000_000); // Between two looks; the deadline decides, not this.
      }
    }
  }

  private List<String> checkpoints() {
    try (Stream<Path> files = Files.walk(temporary)) {
      return files
          .filter(Files::isRegularFile)
          .map(file -> file.getFileName().toString())
          .filter(name -> name.endsWith(".checkpoint"))
          .collect(Collectors.toList());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The order of it all. */
  private void assertMoved(RejoinRun run) {
    List<TrainingEvent> events = run.events();
    TrainingEvent seen = first(run, event -> event.kind() == Kind.EXECUTOR_LEAVES);
    TrainingEvent moved = first(run, event -> event.kind() == Kind.RANK_MOVED);
    TrainingEvent back = back(run);
    assertEquals(VICTIM, moved.number("rank"));
    String executor = seen.text("executor");
    assertEquals(executor, moved.text("executor"));
    assertNotEquals(executor, back.text("executor"), "it is on the executor that is to go");
    Predicate<TrainingEvent> isDead =
        event -> event.kind() == Kind.AGENT_LOST && event.text("executor").equals(executor);
    events.stream()
        .filter(isDead)
        .findFirst()
        .ifPresent(
            dead -> assertTrue(events.indexOf(moved) < events.indexOf(dead), () -> "" + events));
    assertEquals(1, all(run, event -> event.kind() == Kind.RANK_LOST).size(), () -> "" + events);
    TrainingEvent caughtUp =
        first(run, event -> event.kind() == Kind.CAUGHT_UP && event.number("rank") == VICTIM);
    assertTrue(caughtUp.number("rounds_again") <= 1, () -> "rounds again: " + caughtUp);
    System.out.printf(
        "seen %d ms after the signal (%s of them known to Spark); from the move to the rank's join"
            + " elsewhere %d ms, until it worked with the others %d ms; %d rounds again%n",
        (seen.atNanos() - signalled.get()) / 1_000_000,
        seen.text("known_millis"),
        millis(moved, back),
        millis(moved, caughtUp),
        caughtUp.number("rounds_again"));
  }

  /** The victim is told in a round, and the notice is seen before that round ends. */
  private RejoinRun noticed(Calm calm) {
    return noticed(calm, WORKERS);
  }

  private RejoinRun noticed(Calm calm, int workers) {
    RejoinRun run =
        run(FaultCase.ROUNDS, workers)
            .fault(stopped(calm, BEFORE))
            .fault(afterTheCheckpoint(calm, AFTER));
    run.listen(
        event -> {
          if (fired(event, 0)) {
            signalled.set(System.nanoTime());
          }
        });
    new FaultCase.ByEvent(run).when(event -> fired(event, 0), VICTIM, "PWR");
    wake(run, BEFORE, event -> event.kind() == Kind.EXECUTOR_LEAVES);
    return run;
  }

  private static void wake(RejoinRun run, int rank, Predicate<TrainingEvent> moment) {
    new FaultCase.ByEvent(run).when(moment, rank, "CONT");
  }

  /** In the fourth round; where checkpoints have their turn in every one, in the middle. */
  private static String stopped(Calm calm, int rank) {
    Fault fault = Fault.of(rank);
    return IS_EARLY
        ? fault.version(0, 3 * calm.bytes() + calm.inside()).stop()
        : fault.version(calm.middle(), calm.inside()).stop();
  }

  /** In the round after it. */
  private static String afterTheCheckpoint(Calm calm, int rank) {
    return Fault.of(rank).version(IS_EARLY ? 1 : calm.middle() + 1, calm.byteOf(0.2)).stop();
  }

  private void train(RejoinRun run, Calm calm) throws Exception {
    train(run, calm.digest());
  }

  private void train(RejoinRun run, String digest) throws Exception {
    RunFacts facts =
        new RunFacts() {
          @Override
          protected void taskFailed(
              int stage, int stageAttempt, int partition, int attempt, String reason) {
            boolean counts =
                !reason.startsWith("TaskKilled")
                    && !(reason.startsWith("ExecutorLostFailure") && reason.contains("false"));
            if (counts) {
              counted.set(reason);
            }
          }
        };
    Outcome outcome =
        Deadline.within(
            LIMIT, "a training with a spot notice", Sessions.cluster(), () -> run.train(facts));
    assertNull(outcome.trouble(), () -> "events: " + run.events());
    assertEquals(digest, outcome.digest(), () -> "events: " + run.events());
    assertTrue(run.signals(), () -> "a signal was not sent: " + run.events());
    assertNull(counted.get(), "a failure that counts");
  }

  private static Calm undisturbed() throws Exception {
    return undisturbed(WORKERS);
  }

  private static Calm undisturbed(int workers) throws Exception {
    return FaultsIT.undisturbed(session(), Recipe.BINARY, Variation.DEFAULT, workers);
  }

  /** No checkpoint has its turn where one may be taken before it. */
  private static RejoinRun run(int rounds, int workers) {
    return new RejoinRun(session(), Recipe.BINARY, workers, rounds)
        .setting("spark.rejoin.checkpoint.rounds", IS_EARLY ? "1000" : "1")
        .setting("spark.rejoin.lost.after", "60s");
  }

  private static SparkSession session() {
    return Sessions.of(
        Sessions.Shape.SINGLE,
        Map.of("spark.decommission.enabled", "true", "spark.task.maxFailures", "2"));
  }

  private static boolean fired(TrainingEvent event, int rule) {
    return event.kind() == Kind.FAULT_FIRED && event.number("id") == rule;
  }

  private static TrainingEvent back(RejoinRun run) {
    return first(
        run,
        event ->
            event.kind() == Kind.RANK_JOINED
                && event.number("rank") == VICTIM
                && event.number("incarnation") == 1);
  }

  private static List<TrainingEvent> all(RejoinRun run, Predicate<TrainingEvent> which) {
    return run.events().stream().filter(which).collect(Collectors.toList());
  }

  private static TrainingEvent first(RejoinRun run, Predicate<TrainingEvent> which) {
    return all(run, which).stream()
        .findFirst()
        .orElseThrow(() -> new AssertionError("it is missing from " + run.events()));
  }

  private static long millis(TrainingEvent from, TrainingEvent to) {
    return (to.atNanos() - from.atNanos()) / 1_000_000;
  }
}
