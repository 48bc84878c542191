package io.rejoin.it.flink;

import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.it.Randhie;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.MapFunction;

/**
 * The RAND Health Insurance Experiment as lines of files, each a row's number and the row: whether
 * somebody went to a doctor in a year, by nine facts about that person, standardized.
 */
final class DemoData {
  static final int FEATURES = 9;

  private DemoData() {}

  /** Writes the rows so many times over into so many files of a folder; returns how many. */
  static long write(Path folder, int times, int files) throws IOException {
    List<String> lines = Files.readAllLines(Randhie.file());
    List<double[]> rows = new ArrayList<>();
    lines.stream().skip(1).forEach(line -> rows.add(numbers(line)));
    standardize(rows);
    List<StringBuilder> texts = new ArrayList<>();
    for (int file = 0; file < files; file++) {
      texts.add(new StringBuilder());
    }
    long number = 0;
    for (int time = 0; time < times; time++) {
      for (double[] row : rows) {
        StringBuilder text = texts.get((int) (number % files)).append(number++);
        for (double value : row) {
          text.append(',').append(value);
        }
        text.append('\n');
      }
    }
    for (int file = 0; file < files; file++) {
      Files.writeString(file(folder, file), texts.get(file));
    }
    return number;
  }

  /** Writes the rows once, each as its label and its features; returns how many. */
  static long writeLabeled(Path folder, int files) throws IOException {
    Path numbered = Files.createTempDirectory("numbered");
    long count = write(numbered, 1, files);
    for (int file = 0; file < files; file++) {
      List<String> lines = new ArrayList<>();
      for (String line : Files.readAllLines(file(numbered, file))) {
        lines.add(line.substring(line.indexOf(',') + 1));
      }
      Files.write(file(folder, file), lines);
    }
    return count;
  }

  private static Path file(Path folder, int number) {
    return folder.resolve("rows-" + number + ".csv");
  }

  private static double[] numbers(String line) {
    String[] parts = line.split(",");
    double[] numbers = new double[parts.length];
    for (int i = 0; i < parts.length; i++) {
      numbers[i] = Double.parseDouble(parts[i]);
    }
    numbers[0] = numbers[0] > 0 ? 1 : 0;
    return numbers;
  }

  private static void standardize(List<double[]> rows) {
    for (int feature = 1; feature <= FEATURES; feature++) {
      int column = feature;
      double mean = rows.stream().mapToDouble(row -> row[column]).average().orElseThrow();
      double variance =
          rows.stream().mapToDouble(row -> Math.pow(row[column] - mean, 2)).average().orElseThrow();
      rows.forEach(row -> row[column] = (row[column] - mean) / Math.sqrt(variance));
    }
  }

  /** Reads a line, at most so many a second, so that there is something to watch. */
  static final class Reader implements MapFunction<String, DemoTrainer.NumberedRow> {
    private static final long serialVersionUID = 1L;

    private final long nanosPerRow;
    private transient long due;

    Reader(int rowsPerSecond) {
      nanosPerRow = 1_000_000_000L / rowsPerSecond;
    }

    @Override
    public DemoTrainer.NumberedRow map(String line) throws InterruptedException {
      due = Math.max(due + nanosPerRow, System.nanoTime() - 100 * nanosPerRow);
      long early = (due - System.nanoTime()) / 1_000_000;
      if (early > 0) {
        Thread.sleep(early);
      }
      String[] parts = line.split(",");
      double[] features = new double[FEATURES];
      for (int i = 0; i < FEATURES; i++) {
        features[i] = Double.parseDouble(parts[i + 2]);
      }
      DemoTrainer.NumberedRow row = new DemoTrainer.NumberedRow();
      row.number = Long.parseLong(parts[0]);
      row.row = new LabeledRow(features, Double.parseDouble(parts[1]));
      return row;
    }
  }
}
