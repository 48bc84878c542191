package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class WordsTest {
  @Test
  void what_happens_one_time_happens_once() {
    assertEquals("once", Words.times(1));
    assertEquals("0 times", Words.times(0));
    assertEquals("2 times", Words.times(2));
    assertEquals("11 times", Words.times(11));
  }
}
