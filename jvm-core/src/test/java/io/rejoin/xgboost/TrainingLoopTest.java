package io.rejoin.xgboost;

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
import java.util.function.IntConsumer;
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
}
