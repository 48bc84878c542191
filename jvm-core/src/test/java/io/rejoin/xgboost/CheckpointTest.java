package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.rejoin.RejoinException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class CheckpointTest {
  @Test
  void all_parts_come_back_and_the_length_is_known_beforehand() {
    Checkpoint checkpoint = new Checkpoint(new byte[] {1, 2}, new byte[] {3, 4, 5}, 6);
    Checkpoint back = Checkpoint.of(checkpoint.toBytes());

    assertEquals(checkpoint.length(), checkpoint.toBytes().length);
    assertEquals(6, back.loggedPerRound());

    assertArrayEquals(new byte[] {1, 2}, back.progress());
    assertArrayEquals(new byte[] {3, 4, 5}, back.model());
  }

  @Test
  void a_checkpoint_without_scores_is_not_one_with_empty_scores() {
    assertNull(Checkpoint.of(new Checkpoint(null, new byte[] {3}, 0).toBytes()).progress());
    assertEquals(
        0,
        Checkpoint.of(new Checkpoint(new byte[0], new byte[] {3}, 0).toBytes()).progress().length);
  }

  @Test
  void no_prefix_of_a_checkpoint_is_taken_for_one() {
    byte[] whole = new Checkpoint(new byte[] {1, 2}, new byte[] {3, 4, 5}, 6).toBytes();
    for (int length = 0; length < whole.length; length++) {
      byte[] part = Arrays.copyOf(whole, length);
      assertThrows(RejoinException.class, () -> Checkpoint.of(part));
    }
  }

  @Test
  void a_result_comes_back_with_its_scores_in_their_order() {
    Map<String, float[]> metrics = new LinkedHashMap<>();
    metrics.put("train", new float[] {1, 0.5f});
    metrics.put("eval", new float[] {2, Float.NaN});
    TrainingResult back =
        TrainingResult.of(new TrainingResult(new byte[] {9}, 2, metrics).toBytes());

    assertArrayEquals(new byte[] {9}, back.model());
    assertEquals(2, back.rounds());
    assertEquals(Arrays.asList("train", "eval"), Arrays.asList(back.metrics().keySet().toArray()));
    assertArrayEquals(new float[] {2, Float.NaN}, back.metrics().get("eval"));
  }

  @Test
  void no_prefix_of_a_result_is_taken_for_one() {
    Map<String, float[]> metrics = new LinkedHashMap<>();
    metrics.put("train", new float[] {1, 0.5f});
    byte[] whole = new TrainingResult(new byte[] {9, 8}, 2, metrics).toBytes();
    for (int length = 0; length < whole.length; length++) {
      byte[] part = Arrays.copyOf(whole, length);
      assertThrows(RejoinException.class, () -> TrainingResult.of(part));
    }
  }
}
