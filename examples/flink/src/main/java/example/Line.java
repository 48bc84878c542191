package example;

import io.rejoin.flink.trainers.LabeledRow;
import org.apache.flink.api.common.functions.MapFunction;

/** Reads a line: the label, then the features. */
public class Line implements MapFunction<String, LabeledRow> {
  /** How many features a line has. */
  static final int FEATURES = 9;

  private static final long serialVersionUID = 1L;

  @Override
  public LabeledRow map(String line) {
    String[] parts = line.split(",");
    if (parts.length != 1 + FEATURES) {
      throw new IllegalArgumentException(
          "a label and " + FEATURES + " features expected (Line.FEATURES), seen: " + line);
    }
    double[] features = new double[FEATURES];
    for (int i = 0; i < FEATURES; i++) {
      features[i] = Double.parseDouble(parts[i + 1]);
    }
    return new LabeledRow(features, Double.parseDouble(parts[0]));
  }
}
