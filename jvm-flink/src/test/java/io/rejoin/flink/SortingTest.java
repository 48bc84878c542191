package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class SortingTest {
  @Test
  void numbers_are_sorted_and_equal_ones_keep_their_order() {
    Random random = new Random(3);
    for (int count : new int[] {0, 1, 2, 3, 7, 8, 9, 1000, 1025}) {
      int[] values = random.ints(count, 0, 20).toArray();
      int[] expected =
          IntStream.range(0, count)
              .boxed()
              .sorted((one, other) -> Integer.compare(values[one], values[other]))
              .mapToInt(Integer::intValue)
              .toArray();
      assertArrayEquals(
          expected,
          Sorting.sorted(count, (one, other) -> Integer.compare(values[one], values[other])));
    }
  }
}
