package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class RejoinExceptionTest {
  @Test
  void a_native_failure_keeps_its_code_and_its_text() {
    RejoinException failure = new RejoinException("MISMATCH", "rank 1 differs");

    assertEquals(RejoinException.Code.MISMATCH, failure.code());
    assertEquals("rank 1 differs", failure.text());
    assertEquals("MISMATCH: rank 1 differs", failure.getMessage());
  }

  @Test
  void a_code_of_a_later_version_counts_as_a_defect() {
    assertEquals(RejoinException.Code.INTERNAL, new RejoinException("BRAND_NEW", "?").code());
  }

  @Test
  void only_what_a_retry_may_heal_does_not_repeat() {
    assertFalse(RejoinException.Code.FENCED.willRepeat());
    assertFalse(RejoinException.Code.IO.willRepeat());
    assertTrue(RejoinException.Code.MISMATCH.willRepeat());
    assertTrue(RejoinException.Code.TRAINING_FAILED.willRepeat());
  }
}
