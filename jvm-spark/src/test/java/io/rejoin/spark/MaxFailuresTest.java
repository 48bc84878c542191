package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The guide's formula and table for {@code spark.task.maxFailures}. */
class MaxFailuresTest {
  private static final double WANTED = 0.999;

  /** The guide's formula: how probable it is that no rank dies as often as maxFailures says. */
  private static double survives(int workers, double deathsOfOne, int maxFailures) {
    double term = Math.exp(-deathsOfOne);
    double sum = 0;
    for (int deaths = 0; deaths < maxFailures; deaths++) {
      sum += term;
      term *= deathsOfOne / (deaths + 1);
    }
    return Math.pow(sum, workers);
  }

  private static int needed(int workers, double deathsOfOne) {
    int maxFailures = 1;
    while (survives(workers, deathsOfOne, maxFailures) < WANTED) {
      maxFailures++;
    }
    return maxFailures;
  }

  @Test
  void the_table_has_the_least_setting_with_which_999_of_1000_jobs_survive() throws IOException {
    Path guide = Path.of("docs", "spark.md");
    String text = Files.readString(Files.exists(guide) ? guide : Path.of("..").resolve(guide));
    int begin = text.indexOf("| workers | hours |");
    List<String> lines =
        text.substring(begin, text.indexOf("\n\n", begin)).lines().collect(Collectors.toList());
    double[] rates = {0.01, 0.05, 0.2, 1};
    List<String> expected = new ArrayList<>();
    for (int workers : new int[] {4, 16, 64}) {
      for (int hours : new int[] {1, 8, 24}) {
        StringBuilder row = new StringBuilder("| " + workers + " | " + hours + " |");
        for (double rate : rates) {
          row.append(' ').append(needed(workers, rate * hours)).append(" |");
        }
        expected.add(row.toString());
      }
    }
    assertEquals("| workers | hours | 0.01 | 0.05 | 0.2 | 1 |", lines.get(0));
    assertEquals(expected, lines.subList(2, lines.size()));
  }

  @Test
  void simulated_jobs_survive_as_often_as_the_formula_says() {
    Random random = new Random(20);
    int jobs = 20_000;
    for (int workers : new int[] {3, 16}) {
      for (double deathsOfOne : new double[] {0.2, 1, 4}) {
        for (int maxFailures : new int[] {1, 4, 8}) {
          int survived = 0;
          for (int job = 0; job < jobs; job++) {
            survived += survivesOnce(random, workers, deathsOfOne, maxFailures) ? 1 : 0;
          }
          double expected = survives(workers, deathsOfOne, maxFailures);
          double deviation = Math.sqrt(expected * (1 - expected) / jobs);
          double seen = (double) survived / jobs;
          assertTrue(
              Math.abs(seen - expected) <= 5 * deviation + 1e-9,
              workers + ", " + deathsOfOne + ", " + maxFailures + ": " + seen + ", " + expected);
        }
      }
    }
  }

  /** Deaths come one after the other, each after an exponential time; the job takes 1. */
  private static boolean survivesOnce(
      Random random, int workers, double deathsOfOne, int maxFailures) {
    for (int rank = 0; rank < workers; rank++) {
      double clock = 0;
      for (int failures = 0; failures <= maxFailures; failures++) {
        clock -= Math.log(1 - random.nextDouble()) / deathsOfOne;
        if (clock > 1) {
          break;
        }
        if (failures + 1 >= maxFailures) {
          return false;
        }
      }
    }
    return true;
  }
}
