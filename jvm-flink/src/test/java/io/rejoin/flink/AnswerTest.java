package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.util.Random;
import org.junit.jupiter.api.Test;

class AnswerTest {
  /** Flink's own limit for what is sent between its processes. */
  private static final int FRAME_BYTES = 10 << 20;

  @Test
  void a_result_of_any_length_goes_in_parts_that_flink_takes() {
    byte[] result = new byte[25 << 20];
    new Random(1).nextBytes(result);
    ByteArrayOutputStream seen = new ByteArrayOutputStream();
    while (seen.size() < result.length) {
      Answer answer = Answer.over(result, seen.size());
      assertEquals(result.length, answer.resultBytes);
      assertTrue(answer.result.length > 0 && answer.result.length < FRAME_BYTES / 2);
      seen.writeBytes(answer.result);
    }
    assertArrayEquals(result, seen.toByteArray());
  }

  @Test
  void a_rank_that_needs_no_result_gets_none() {
    Answer answer = Answer.over(new byte[100], -1);
    assertEquals(0, answer.resultBytes);
    assertEquals(0, answer.result.length);
  }
}
