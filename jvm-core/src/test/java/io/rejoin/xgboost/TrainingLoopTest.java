package io.rejoin.xgboost;

import static java.util.stream.Collectors.joining;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.DoctoredClassPath;
import io.rejoin.RejoinException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TrainingLoopTest {
  @TempDir Path spill;

  private SmallTraining training() {
    return new SmallTraining(spill);
  }

  @Test
  void each_rank_tells_of_the_beginning_and_of_each_round_and_the_model_is_the_same()
      throws Exception {
    List<List<Integer>> reported = List.of(new ArrayList<>(), new ArrayList<>());
    byte[] model = training().train(List.of(reported.get(0)::add, reported.get(1)::add));
    assertEquals(List.of(0, 1, 2, 3, 4, 5), reported.get(0));
    assertEquals(reported.get(0), reported.get(1));
    assertArrayEquals(training().train(List.of(rounds -> {}, rounds -> {})), model);
  }

  @Test
  void rank_0_prints_the_metrics_of_each_round_and_others_nothing() throws Exception {
    SmallTraining training = training();
    training.train(List.of(rounds -> {}, rounds -> {}));
    List<String> printed = training.printed();
    assertEquals(5, printed.size(), printed.toString());
    for (int round = 0; round < 5; round++) {
      String line = printed.get(round);
      assertTrue(line.matches("rank 0: \\[" + round + "]\ttrain-logloss:\\d\\.\\d+"), line);
    }
  }

  @Test
  void as_in_stock_verbose_eval_and_silent_say_which_rounds_are_printed() {
    assertEquals("012345", printedRounds(Map.of()));
    assertEquals("024", printedRounds(Map.of("verbose_eval", 2)));
    assertEquals("024", printedRounds(Map.of("verbose_eval", "2")));
    assertEquals("012345", printedRounds(Map.of("verbose_eval", true)));
    assertEquals("", printedRounds(Map.of("verbose_eval", "False")));
    assertEquals("", printedRounds(Map.of("verbose_eval", 0)));
    assertEquals("", printedRounds(Map.of("silent", "true")));
    assertEquals("", printedRounds(Map.of("silent", 1, "verbose_eval", 1)));
    assertEquals("012345", printedRounds(Map.of("silent", 0)));
  }

  private static String printedRounds(Map<String, Object> parameters) {
    XgboostVersion version = XgboostVersion.loaded();
    TrainingSpec spec = new TrainingSpec(2, 6, parameters, CheckpointRhythm.of(version, 0, 1));
    return IntStream.range(0, 6)
        .filter(spec::prints)
        .mapToObj(Integer::toString)
        .collect(joining());
  }

  /** XGBoost4J's jar mentions both; where Flink runs neither is there. */
  @Test
  void neither_hadoop_nor_scala_is_needed(@TempDir Path folder) throws Throwable {
    try (DoctoredClassPath path =
        new DoctoredClassPath(folder).without("hadoop").without("scala-library")) {
      Map<?, ?> reported =
          (Map<?, ?>) path.call(SmallTraining.class.getName(), "reported", spill + "");
      assertFalse(((String) reported.get("model")).isEmpty());
    }
  }

  @Test
  void a_listener_that_throws_ends_its_rank_with_what_it_threw() {
    IntConsumer broken =
        rounds -> {
          if (rounds == 3) {
            throw new IllegalStateException("three is too many");
          }
        };
    RejoinException failure =
        assertThrows(RejoinException.class, () -> training().train(List.of(broken, rounds -> {})));
    assertTrue(failure.getMessage().contains("three is too many"), failure.getMessage());
  }

  @Test
  void a_rank_that_dies_goes_on_with_a_base_score_for_several_outputs() throws Exception {
    Map<String, Object> parameters =
        Map.of(
            "objective", "reg:quantileerror",
            "quantile_alpha", "[0.1,0.5,0.9]",
            "base_score", 0.5);
    byte[] model = training().parameters(parameters).train(List.of(rounds -> {}, rounds -> {}));
    AtomicBoolean died = new AtomicBoolean();
    IntConsumer once =
        rounds -> {
          if (rounds == 3 && died.compareAndSet(false, true)) {
            throw new IllegalStateException("dies");
          }
        };
    SmallTraining disturbed = training().parameters(parameters).retries(1);
    assertArrayEquals(model, disturbed.train(List.of(rounds -> {}, once)));
    assertTrue(died.get());
  }
}
