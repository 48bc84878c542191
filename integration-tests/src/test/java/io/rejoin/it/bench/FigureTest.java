package io.rejoin.it.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FigureTest {
  private static Figure paired(double bar) {
    return Figure.paired(
        "training",
        "2 ranks",
        "ms",
        List.of(11.0, 30.0, 12.0),
        "stock",
        List.of(10.0, 10.0, 10.0),
        bar);
  }

  @Test
  void the_median_of_the_ratios_of_neighbouring_pairs_decides_whether_a_bar_is_met() {
    // The roots of 1.1 times 3.0 and of 3.0 times 1.2 are 1.817 and 1.897.
    assertTrue(paired(1.86).met());
    assertFalse(paired(1.85).met());
    assertFalse(paired(Double.NaN).hasBar());
  }

  @Test
  void that_the_second_of_a_pair_is_slower_changes_nothing() {
    Figure figure =
        Figure.paired(
            "training",
            "2 ranks",
            "ms",
            List.of(10.0, 12.0, 10.0, 12.0),
            "stock",
            List.of(12.0, 10.0, 12.0, 10.0),
            1.0);
    assertTrue(figure.met());
    assertTrue(figure.csv().contains(",1.0000,1.0000,1.0000,"), figure.csv());
  }

  @Test
  void each_pair_is_a_line_that_says_who_was_first() {
    assertEquals(
        List.of(
            "training,\"2 ranks\",ms,0,ours,11.0000,stock,10.0000,1.1000",
            "training,\"2 ranks\",ms,1,peer,30.0000,stock,10.0000,3.0000",
            "training,\"2 ranks\",ms,2,ours,12.0000,stock,10.0000,1.2000"),
        paired(1).pairsCsv());
    assertEquals(
        Figure.PAIRS_HEADER.split(",").length, paired(1).pairsCsv().get(0).split(",").length);
    assertEquals(Figure.HEADER.split(",").length, paired(1).csv().split(",").length);
  }

  @Test
  void values_that_are_no_pairs_are_refused() {
    assertThrows(
        IllegalArgumentException.class,
        () -> Figure.paired("a", "b", "ms", List.of(1.0, 2.0), "stock", List.of(1.0), 1));
    assertThrows(IllegalArgumentException.class, () -> Figure.alone("a", "b", "ms", List.of(), 1));
  }

  @Test
  void a_report_leaves_a_table_and_the_pairs(@TempDir Path folder) throws IOException {
    Report report = new Report(folder);
    report.add(paired(1.2));
    report.add(Figure.alone("rendezvous", "3 ranks", "ms", List.of(8.0), 30));
    List<String> pairs = Files.readAllLines(folder.resolve("training-pairs.csv"));
    assertEquals(Figure.PAIRS_HEADER, pairs.get(0));
    assertEquals(4, pairs.size());
    assertEquals(2, Files.readAllLines(folder.resolve("training.csv")).size());
    assertFalse(Files.exists(folder.resolve("rendezvous-pairs.csv")));
  }
}
