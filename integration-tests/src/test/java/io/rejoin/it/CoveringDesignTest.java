package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class CoveringDesignTest {
  private static final int ROWS = 25;
  private static final CoveringDesign TWO_OF_SEVEN = new CoveringDesign(7, 2, -12345);

  @Test
  void a_repetition_tries_as_many_cells_of_each_row_as_asked() {
    for (int repetition = 0; repetition < 9; repetition++) {
      for (int row = 0; row < ROWS; row++) {
        assertEquals(2, TWO_OF_SEVEN.columnsOf(row, repetition).size());
      }
    }
  }

  @Test
  void a_repetition_tries_every_column_about_as_often_as_the_others() {
    int[] tried = new int[7];
    for (int row = 0; row < ROWS; row++) {
      TWO_OF_SEVEN.columnsOf(row, 3).forEach(column -> tried[column]++);
    }
    for (int times : tried) {
      assertTrue(times >= ROWS * 2 / 7 - 1 && times <= ROWS * 2 / 7 + 2, times + " times");
    }
  }

  @Test
  void after_enough_repetitions_every_cell_was_tried_and_not_before() {
    for (int repetitions = 1; repetitions <= TWO_OF_SEVEN.repetitionsForAll(); repetitions++) {
      Set<Integer> tried = new HashSet<>();
      for (int repetition = 0; repetition < repetitions; repetition++) {
        tried.addAll(TWO_OF_SEVEN.columnsOf(11, repetition));
      }
      assertEquals(repetitions == TWO_OF_SEVEN.repetitionsForAll(), tried.size() == 7);
    }
  }

  @Test
  void another_seed_begins_elsewhere() {
    assertTrue(
        !new CoveringDesign(7, 2, 1)
            .columnsOf(0, 0)
            .equals(new CoveringDesign(7, 2, 2).columnsOf(0, 0)));
  }

  @Test
  void all_columns_per_row_are_the_whole_table() {
    assertEquals(List.of(0, 1, 2), new CoveringDesign(3, 3, 99).columnsOf(5, 4));
    assertThrows(IllegalArgumentException.class, () -> new CoveringDesign(3, 4, 0));
  }
}
