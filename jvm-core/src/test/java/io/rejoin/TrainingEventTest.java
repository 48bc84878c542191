package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class TrainingEventTest {
  @Test
  void fields_are_read_by_name() {
    TrainingEvent event =
        new TrainingEvent(
            new String[] {"RankLost", "rank", "2", "reason", "closed", "silent_millis", "12"}, 7);

    assertEquals(TrainingEvent.Kind.RANK_LOST, event.kind());
    assertEquals(2, event.rank().getAsInt());
    assertEquals("closed", event.text("reason"));
    assertEquals(12, event.number("silent_millis"));
    assertEquals(7, event.atNanos());
  }

  @Test
  void an_unknown_kind_keeps_its_name() {
    TrainingEvent event = new TrainingEvent(new String[] {"RankSang"}, 0);

    assertEquals(TrainingEvent.Kind.OTHER, event.kind());
    assertEquals("RankSang", event.name());
    assertTrue(event.rank().isEmpty());
  }

  @Test
  void a_field_that_is_not_there_or_no_number_is_an_error_that_names_it() {
    TrainingEvent event = new TrainingEvent(new String[] {"Usage", "agent", "x"}, 0);

    assertTrue(
        assertThrows(IllegalArgumentException.class, () -> event.number("bytes"))
            .getMessage()
            .contains("bytes"));
    assertTrue(
        assertThrows(IllegalArgumentException.class, () -> event.number("agent"))
            .getMessage()
            .contains("x"));
  }

  @Test
  void a_key_without_a_value_is_refused() {
    assertThrows(
        IllegalArgumentException.class,
        () -> new TrainingEvent(new String[] {"Usage", "agent"}, 0));
  }

  @Test
  void a_sentence_has_the_values_of_fields_as_they_are() {
    TrainingEvent event =
        new TrainingEvent(new String[] {"RankLost", "rank", "1", "reason", "$1 of {rank}"}, 0);
    assertEquals(
        "rank 1 is lost at : $1 of {rank}",
        event.sentence("rank {rank} is lost at {nowhere}: {reason}"));
  }

  @Test
  void one_that_was_recorded_is_what_it_was() {
    TrainingEvent was =
        new TrainingEvent(new String[] {"RankLost", "rank", "3", "reason", "exit 137"}, 7);
    TrainingEvent is = TrainingEvent.recorded(was.name(), was.fields(), 99);
    assertEquals(TrainingEvent.Kind.RANK_LOST, is.kind());
    assertEquals(was.fields(), is.fields());
    assertEquals(99, is.atNanos());
    assertEquals(TrainingEvent.Kind.OTHER, TrainingEvent.recorded("New", was.fields(), 0).kind());
  }
}
