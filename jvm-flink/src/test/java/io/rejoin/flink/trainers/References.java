package io.rejoin.flink.trainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.flink.Ranks;
import io.rejoin.flink.TrainerFunction;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.function.Executable;

/**
 * The rows that all trainers are tried with, and what src/test/python/references.py made of them.
 */
final class References {
  static final double TOLERANCE = 1e-9;
  private static final int BATCHES = 8;

  private References() {}

  /** Each line of a file of numbers. */
  static List<double[]> lines(String file) throws IOException {
    try (BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(
                References.class.getResourceAsStream(file), StandardCharsets.UTF_8))) {
      return lines
          .lines()
          .map(line -> Arrays.stream(line.split(",")).mapToDouble(Double::parseDouble).toArray())
          .collect(Collectors.toList());
    }
  }

  /** The global batches, of which one has no rows, with the first so many features. */
  static List<List<LabeledRow>> batches(int features) throws IOException {
    List<List<LabeledRow>> batches = new ArrayList<>();
    for (int batch = 0; batch < BATCHES; batch++) {
      batches.add(new ArrayList<>());
    }
    for (double[] line : lines("rows.csv")) {
      double[] row = Arrays.copyOfRange(line, 3, 3 + features);
      batches.get((int) line[0]).add(new LabeledRow(row, line[1], line[2]));
    }
    return batches;
  }

  /**
   * The same global batches among so many ranks: unequal parts, some of them empty, and in some of
   * them rows in another order.
   */
  static List<List<List<LabeledRow>>> divided(List<List<LabeledRow>> batches, int world) {
    List<List<List<LabeledRow>>> divided = new ArrayList<>();
    for (int version = 0; version < batches.size(); version++) {
      List<List<LabeledRow>> parts = new ArrayList<>();
      for (int rank = 0; rank < world; rank++) {
        parts.add(new ArrayList<>());
      }
      List<LabeledRow> rows = batches.get(version);
      for (int row = 0; row < rows.size(); row++) {
        int rank = version % 3 == 1 ? world - 1 : (row * row + version) % 7 % world;
        parts.get(rank).add(rows.get(row));
      }
      divided.add(parts);
    }
    return divided;
  }

  /** The model of each version, trained by so many ranks. */
  static <M> List<M> train(
      TrainerFunction<LabeledRow, M> trainer, List<List<LabeledRow>> batches, int world)
      throws Exception {
    return Ranks.train(trainer, divided(batches, world));
  }

  /** All numbers within the tolerance, relative to the expected ones. */
  static void assertClose(double[] expected, double[] seen, String what) {
    assertEquals(expected.length, seen.length, what);
    for (int i = 0; i < expected.length; i++) {
      double apart = Math.abs(expected[i] - seen[i]);
      assertTrue(
          apart <= TOLERANCE * Math.abs(expected[i]),
          what + ", number " + i + ": expected " + expected[i] + ", was " + seen[i]);
    }
  }

  /** All parts in one array. */
  static double[] joined(double[]... parts) {
    return Arrays.stream(parts).flatMapToDouble(Arrays::stream).toArray();
  }

  /** A failure with this code whose text says each of these. */
  static void assertFails(RejoinException.Code code, Executable call, String... said) {
    RejoinException failure = assertThrows(RejoinException.class, call);
    assertEquals(code, failure.code(), failure.getMessage());
    for (String word : said) {
      assertTrue(failure.text().contains(word), word + " expected in: " + failure.text());
    }
  }
}
