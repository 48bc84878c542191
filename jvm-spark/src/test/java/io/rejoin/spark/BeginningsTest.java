package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Faults;
import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class BeginningsTest {
  /** A rank may die twice. */
  private static SparkSession session;

  private final Faults faults = Faults.parse("rank=1,at=join");
  private final List<Faults> begun = new ArrayList<>();

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,3]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  /** Trainings of which so many end with this code, and the next one with a model. */
  private String train(Map<String, String> settings, RejoinException.Code code, int failures) {
    return new Beginnings(
            SparkSettings.of(settings), new Surroundings(session.sparkContext(), 2), faults)
        .train(
            injected -> {
              begun.add(injected);
              if (begun.size() <= failures) {
                throw new RejoinException(code, "page 3 of partition 1");
              }
              return "model";
            });
  }

  @Test
  void a_training_whose_input_is_lost_begins_again_as_often_as_a_rank_may_die() {
    assertEquals("model", train(Map.of(), RejoinException.Code.INPUT_LOST, 2));
    assertEquals(3, begun.size());
    assertSame(faults, begun.get(0), "a fault fires once");
    assertTrue(begun.stream().skip(1).noneMatch(injected -> injected == faults));
  }

  @Test
  void once_more_than_that_it_ends_with_what_was_lost_and_the_setting() {
    RejoinException lost =
        assertThrows(
            RejoinException.class, () -> train(Map.of(), RejoinException.Code.INPUT_LOST, 9));
    assertEquals(RejoinException.Code.INPUT_LOST, lost.code());
    assertEquals(3, begun.size());
    assertTrue(lost.text().startsWith("page 3 of partition 1. A training begins"), lost.text());
    assertTrue(lost.text().contains("(2 times, the "), lost.text());
    assertTrue(lost.text().contains("local[threads,failures]"), lost.text());
  }

  @Test
  void with_another_error_or_where_the_setting_says_fail_it_does_not_begin_again() {
    assertThrows(
        RejoinException.class, () -> train(Map.of(), RejoinException.Code.UNRECOVERABLE, 1));
    assertEquals(1, begun.size());
    begun.clear();
    assertThrows(
        RejoinException.class,
        () -> train(Map.of("spark.rejoin.input.lost", "fail"), RejoinException.Code.INPUT_LOST, 1));
    assertEquals(1, begun.size());
  }
}
