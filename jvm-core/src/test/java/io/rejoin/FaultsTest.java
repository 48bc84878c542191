package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class FaultsTest {
  @Test
  void rules_are_written_as_the_native_library_reads_them() {
    Faults faults =
        Faults.none().and(1, 0, "version:5:20000", "kill").and(2, -1, "joined", "cut:0");

    assertEquals(
        "id=0;rank=1;incarnation=0;at=version:5:20000;do=kill|id=1;rank=2;at=joined;do=cut:0",
        faults.toString());
  }

  @Test
  void a_text_is_taken_apart_into_its_rules() {
    assertEquals(
        2, Faults.parse("rank=1;at=joined;do=kill | rank=2;at=joined;do=kill").rules().size());
    assertTrue(Faults.parse("").isEmpty());
    assertFalse(Faults.parse("rank=1;at=joined;do=kill").isEmpty());
  }
}
