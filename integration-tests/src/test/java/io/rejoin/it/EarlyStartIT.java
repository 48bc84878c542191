package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.spark.RejoinSpark;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** No rank waits until its rows are on more than one executor. */
@DisplayName("ranks that begin before the further copies of their input are there")
class EarlyStartIT {
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final int WORKERS = 3;
  private static final int VICTIM = 1;

  @TempDir Path temporary;

  private SparkSession spark;
  private Path held;

  @BeforeEach
  void noCopyIsMadeYet() throws Exception {
    // A path that sessions share, so that they are one session.
    held = Path.of(Sessions.cluster().configuration().get("spark.local.dir"), "held-copies");
    Files.createDirectories(held.getParent());
    Files.deleteIfExists(held);
    Files.createFile(held);
    String options = Sessions.executorOptions() + " -D" + HeldCopies.FILE + "=" + held;
    spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.storage.replication.policy",
                HeldCopies.class.getName(),
                Sessions.EXECUTOR_OPTIONS,
                options));
  }

  /** The executors that have the first page of each rank's rows now. */
  private Map<Integer, Set<String>> holders() {
    return InputCopies.awaited(spark, WORKERS, any -> true);
  }

  @Test
  void survive_the_death_of_the_executor_that_has_the_only_copy() throws Exception {
    RejoinRun calm = new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS);
    String expected = Deadline.within(LIMIT, "calm", Sessions.cluster(), calm::train).digest();
    RejoinRun run =
        new RejoinRun(spark, Recipe.BINARY, WORKERS, FaultCase.ROUNDS)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            .fault(Fault.of(VICTIM).version(5, 1_000).kill());
    Map<Integer, String> first = new ConcurrentHashMap<>();
    Map<Integer, Set<String>> copies = new ConcurrentHashMap<>();
    run.listen(
        event -> {
          if (event.kind() == Kind.RANK_JOINED) {
            first.putIfAbsent(event.rank().getAsInt(), event.text("executor"));
            if (copies.isEmpty()) {
              copies.putAll(holders());
            }
          }
        });
    Outcome outcome = Deadline.within(LIMIT, "killed early", Sessions.cluster(), run::train);
    assertEquals(Set.of(first.get(VICTIM)), copies.get(VICTIM), "its rows were there alone");
    assertTrue(
        run.events().stream().anyMatch(e -> e.kind() == Kind.RANK_LOST),
        "no rank was lost: " + run.events());
    assertEquals(expected, outcome.digest(), "events: " + run.events());
  }

  @Test
  void begin_where_their_rows_are_and_the_log_says_when_the_copies_are_there() throws Exception {
    Path go = temporary.resolve("go");
    String wanted = go.toString();
    try (Logs logs = Logs.collectAll()) {
      CompletableFuture<long[]> training =
          CompletableFuture.supplyAsync(
              () ->
                  RejoinSpark.train(
                      spark.range(0, 3_000, 1, WORKERS),
                      WORKERS,
                      (ranks, rows) -> executorsOnceThere(ranks, wanted)));
      assertEquals(1, logs.awaited("the further copies of its input are being made", 1).size());
      Map<Integer, Set<String>> before = holders();
      before.values().forEach(each -> assertEquals(1, each.size(), before.toString()));
      assertEquals(List.of(), logs.with("each page of the training input is on"));
      Files.delete(held);
      assertEquals(1, logs.awaited("training input is on 2 executors", 1).size());
      Map<Integer, Set<String>> after = holders();
      after.values().forEach(each -> assertEquals(2, each.size(), after.toString()));
      Files.createFile(go);
      long[] executors = training.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
      for (int rank = 0; rank < WORKERS; rank++) {
        assertEquals(Set.of(String.valueOf(executors[rank])), before.get(rank));
      }
    }
  }

  /** The executor of each rank, when the file is there. */
  private static long[] executorsOnceThere(Communicator ranks, String file) throws Exception {
    ranks.load();
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (!Files.exists(Path.of(file))) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("expected the file " + file);
      }
      Thread.sleep(10); // Between two looks; the deadline decides, not this.
    }
    long[] executors = new long[ranks.world()];
    executors[ranks.rank()] = Long.parseLong(SparkEnv.get().executorId());
    ranks.allreduce(executors, Reduction.SUM);
    return executors;
  }
}
