package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The driver dies, and the application is submitted again. */
@DisplayName("with a durable folder a training outlives its driver")
class DurableIT {
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final Recipe RECIPE = Recipe.COUNT;
  private static final int WORKERS = 3;
  private static final int ROUNDS = 20;
  private static final int LAST_ROUND = 12;

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
    settings.put("spark.rejoin.durable.every", "2");
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
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    RejoinRun calm = new RejoinRun(spark, RECIPE, WORKERS, ROUNDS);
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

  /** This process is another application, in local mode; what it trains is the same. */
  private void assertAnotherApplicationIsRefused(String first) {
    RejoinRun second = new RejoinRun(Sessions.of(Sessions.Shape.LOCAL), RECIPE, WORKERS, ROUNDS);
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
