package io.rejoin.flink;

import java.util.function.IntBinaryOperator;

/** Sorts numbers of rows, without an object for each. */
final class Sorting {
  private Sorting() {}

  /** The numbers from 0 to before {@code count} in an order; equal ones keep theirs. */
  static int[] sorted(int count, IntBinaryOperator compare) {
    int[] from = new int[count];
    int[] to = new int[count];
    for (int i = 0; i < count; i++) {
      from[i] = i;
    }
    for (long run = 1; run < count; run *= 2) {
      for (long start = 0; start < count; start += 2 * run) {
        int middle = (int) Math.min(count, start + run);
        merge(from, to, (int) start, middle, (int) Math.min(count, start + 2 * run), compare);
      }
      int[] other = from;
      from = to;
      to = other;
    }
    return from;
  }

  private static void merge(
      int[] from, int[] to, int start, int middle, int end, IntBinaryOperator compare) {
    int left = start;
    int right = middle;
    for (int at = start; at < end; at++) {
      boolean takesLeft =
          right == end || left < middle && compare.applyAsInt(from[left], from[right]) <= 0;
      to[at] = takesLeft ? from[left++] : from[right++];
    }
  }
}
