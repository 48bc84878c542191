package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class PythonOutputTest {
  @Test
  void a_call_that_is_interrupted_before_it_has_begun_ends_as_it_begins() {
    PythonOutput output = new PythonOutput();
    output.runsIn(Thread.currentThread());
    assertFalse(Thread.interrupted());
    output.runsIn(null);
    output.interrupt();
    assertFalse(Thread.interrupted(), "it isn't this thread's any more");
    output.runsIn(Thread.currentThread());
    assertTrue(Thread.interrupted());
  }
}
