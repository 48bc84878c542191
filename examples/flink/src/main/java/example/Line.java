package example;

import io.rejoin.flink.trainers.LabeledRow;
import org.apache.flink.api.common.functions.MapFunction;

/** Reads a line: the label, then the features. */
public class Line implements MapFunction<String, LabeledRow> {
  private static final long serialVersionUID = 1L;

  @Override
  public LabeledRow map(String line) {
    String[] parts = line.split(",");
    double[] features = new double[parts.length - 1];
    for (int i = 0; i < features.length; i++) {
      features[i] = Double.parseDouble(parts[i + 1]);
    }
    return new LabeledRow(features, Double.parseDouble(parts[0]));
  }
}
