package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class FaultsTest {
  @Test
  void a_text_is_taken_apart_into_its_rules() {
    Faults faults = Faults.parse("rank=1,at=join | rank=2,at=join").and("rank=0,at=load");
    assertEquals(List.of("rank=1,at=join", "rank=2,at=join", "rank=0,at=load"), faults.rules());
    assertEquals("rank=1,at=join|rank=2,at=join|rank=0,at=load", faults.toString());
    assertTrue(Faults.parse("").isEmpty());
    assertFalse(Faults.parse("rank=1,at=join").isEmpty());
  }
}
