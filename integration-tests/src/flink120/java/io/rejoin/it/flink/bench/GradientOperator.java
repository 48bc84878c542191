package io.rejoin.it.flink.bench;

import io.rejoin.flink.trainers.LabeledRow;
import java.io.IOException;
import java.util.ArrayDeque;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InputSelectable;
import org.apache.flink.streaming.api.operators.InputSelection;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * A worker of {@link IterateTraining}: of each model that comes back the gradient of its next
 * Training.BATCH. It reads no further ahead than some batches, as ours doesn't.
 */
final class GradientOperator extends AbstractStreamOperator<double[]>
    implements TwoInputStreamOperator<LabeledRow, double[], double[]>, InputSelectable {
  private static final long serialVersionUID = 1L;
  private static final int BATCHES_AHEAD = 4;

  private final StepClock clock;
  private transient ArrayDeque<LabeledRow> rows;
  // Null while the gradient of the newest one is under way.
  private transient double[] model;

  GradientOperator(StepClock clock) {
    this.clock = clock;
  }

  @Override
  public void open() throws Exception {
    super.open();
    rows = new ArrayDeque<>();
    model = new double[Training.FEATURES + 1];
  }

  @Override
  public InputSelection nextSelection() {
    return rows.size() < BATCHES_AHEAD * Training.BATCH
        ? InputSelection.ALL
        : InputSelection.SECOND;
  }

  @Override
  public void processElement1(StreamRecord<LabeledRow> row) throws Exception {
    rows.add(row.getValue());
    trainIfReady();
  }

  @Override
  public void processElement2(StreamRecord<double[]> newest) throws Exception {
    model = newest.getValue();
    trainIfReady();
  }

  private void trainIfReady() throws IOException {
    if (model == null || rows.size() < Training.BATCH) {
      return;
    }
    double[] sums = new double[Training.FEATURES + 2];
    for (int i = 0; i < Training.BATCH; i++) {
      add(rows.poll(), sums);
    }
    model = null;
    output.collect(new StreamRecord<>(sums));
    clock.step("rank-" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
  }

  /** The gradient for the features, for the intercept, and the weight. */
  private void add(LabeledRow row, double[] sums) {
    double margin = model[Training.FEATURES];
    for (int i = 0; i < Training.FEATURES; i++) {
      margin += model[i] * row.features[i];
    }
    double error = row.weight * (1 / (1 + Math.exp(-margin)) - row.label);
    for (int i = 0; i < Training.FEATURES; i++) {
      sums[i] += error * row.features[i];
    }
    sums[Training.FEATURES] += error;
    sums[Training.FEATURES + 1] += row.weight;
  }
}
