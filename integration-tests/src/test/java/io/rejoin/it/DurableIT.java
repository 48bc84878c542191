package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/** The driver dies, and the application is submitted again. */
@DisplayName("with a durable folder a training outlives its driver")
class DurableIT {
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final Recipe RECIPE = Recipe.COUNT;
  private static final int WORKERS = 3;
  private static final int ROUNDS = 20;
  private static final int LAST_ROUND = 12;
  private static final int EVERY = 2;
  private static final Pattern CHECKPOINT = Pattern.compile(".*-(\\d{10})\\.checkpoint");

  /** A rank stays in that round, so that the training can't be over before something happens. */
  private static final String HELD_UP =
      "rank=1,version=" + LAST_ROUND + ",at=bytes:0,do=delay:120s";

  @TempDir Path temporary;

  private Path folder() {
    return temporary.resolve("durable");
  }

  private Map<String, String> settings() {
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.put("spark.cores.max", Integer.toString(WORKERS));
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    settings.put("spark.rejoin.durable", folder().toUri().toString());
    settings.put("spark.rejoin.durable.every", String.valueOf(EVERY));
    settings.put(FitDriver.SORTED, "true");
    return settings;
  }

  private FitProcess driver(String... faults) throws IOException {
    String[] training = {RECIPE.name(), String.valueOf(WORKERS), String.valueOf(ROUNDS)};
    String[] arguments = Stream.of(training, faults).flatMap(Stream::of).toArray(String[]::new);
    return new FitProcess(settings(), temporary.toString(), arguments);
  }

  private List<String> left() throws IOException {
    try (Stream<Path> trainings = Files.list(folder())) {
      return trainings.map(each -> each.getFileName().toString()).collect(Collectors.toList());
    }
  }

  /** What is trained without any of this. */
  private static String undisturbed() throws Exception {
    RejoinRun calm = run(Sessions.of(Sessions.Shape.SINGLE));
    calm.setting("spark.rejoin.checkpoint.rounds", "1");
    String digest = Deadline.within(LIMIT, "undisturbed", Sessions.cluster(), calm::train).digest();
    Sessions.free();
    return digest;
  }

  @Test
  void
      a_driver_that_is_killed_goes_on_when_it_is_submitted_again_and_shuffles_nothing_and_nobody_else_may()
          throws Exception {
    String expected = undisturbed();
    try (FitProcess first = driver(HELD_UP)) {
      first.await("shuffle", bytes -> Long.parseLong(bytes) > 0, LIMIT.toSeconds());
      reached(first, LAST_ROUND - 1);
      assertAnotherApplicationIsRefused(first.await("application", any -> true, 1));
      first.process().destroyForcibly().waitFor();
    }
    assertEquals(1, left().size(), "trainings in the folder: " + left());
    try (FitProcess second = driver()) {
      String round = second.await("round", any -> true, LIMIT.toSeconds());
      assertTrue(Integer.parseInt(round) >= LAST_ROUND - 4, "it began at round " + round);
      assertEquals(expected, second.await("model", any -> true, LIMIT.toSeconds()));
      assertEquals("0", second.await("shuffled", any -> true, LIMIT.toSeconds()));
    }
    assertEquals(List.of(), left(), "it is over, and nothing is kept");
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void the_folder_holds_the_two_newest_checkpoints_and_never_more_than_one_beside_them()
      throws Exception {
    Sessions.free();
    int most = 0;
    // Every second of twelve versions was written when the training is held up.
    List<Integer> newest = List.of(LAST_ROUND - EVERY, LAST_ROUND);
    try (FitProcess driver = driver(HELD_UP)) {
      long deadline = System.nanoTime() + LIMIT.toNanos();
      List<Integer> there = List.of();
      while (!there.equals(newest)) {
        assertTrue(driver.process().isAlive(), () -> "it ended: " + driver.facts());
        assertTrue(System.nanoTime() < deadline, "checkpoints that are there: " + there);
        TimeUnit.MILLISECONDS.sleep(10); // Between two looks; the deadline decides, not this.
        there = checkpoints();
        // One is written before the oldest is removed.
        most = Math.max(most, there.size());
      }
      driver.process().destroyForcibly().waitFor();
    }
    assertTrue(most <= newest.size() + 1, "checkpoints that were there at the same time: " + most);
  }

  /** Their versions, in order. */
  private List<Integer> checkpoints() throws IOException {
    if (!Files.exists(folder())) {
      return List.of();
    }
    try (Stream<Path> files = Files.walk(folder())) {
      return files
          .map(file -> CHECKPOINT.matcher(file.getFileName().toString()))
          .filter(Matcher::matches)
          .map(name -> Integer.valueOf(name.group(1)))
          .sorted()
          .collect(Collectors.toList());
    } catch (UncheckedIOException removedMeanwhile) {
      return List.of();
    }
  }

  /** This process is another application, in local mode; what it trains is the same. */
  /** On rows whose order is a shuffle of the data set's own. */
  private static RejoinRun run(SparkSession spark) {
    return new RejoinRun(spark, RECIPE, WORKERS, ROUNDS)
        .data(FitDriver.sorted(RECIPE.data(spark, WORKERS)));
  }

  private void assertAnotherApplicationIsRefused(String first) {
    RejoinRun second = run(Sessions.of(Sessions.Shape.LOCAL));
    settings()
        .forEach(
            (key, value) -> {
              if (key.startsWith("spark.rejoin.")) {
                second.setting(key, value);
              }
            });
    RejoinException refused = assertThrows(RejoinException.class, second::train);
    Sessions.free();
    assertEquals(RejoinException.Code.BAD_ARGUMENT, refused.code(), refused.text());
    assertTrue(refused.text().contains(first), refused.text());
    assertTrue(refused.text().contains("spark.rejoin.durable.name"), refused.text());
  }

  private static void reached(FitProcess driver, int round) throws InterruptedException {
    driver.await("round", reached -> Integer.parseInt(reached) >= round, LIMIT.toSeconds());
  }
}
