package io.rejoin.it.flink;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import java.util.ArrayList;
import java.util.List;

/**
 * Logistic regression by gradient descent with one allreduce a batch, which also counts the rows of
 * each split, and meets faults.
 */
public final class SplitTrainer implements TrainerFunction<SplitRow, SplitModel> {
  private static final long serialVersionUID = 1L;
  private static final double STEP = 0.5;

  private final int features;
  private final int splits;
  private final List<JobFault> faults;
  private int rank;

  /** For rows of so many features from so many splits. */
  public SplitTrainer(int features, int splits, List<JobFault> faults) {
    this.features = features;
    this.splits = splits;
    this.faults = new ArrayList<>(faults);
  }

  @Override
  public SplitModel open(TrainerContext context) {
    rank = context.rank();
    return new SplitModel(features, splits);
  }

  @Override
  public SplitModel onBatch(List<SplitRow> batch, Communicator ranks, SplitModel model) {
    // The gradient; then what the model has of each split.
    double[] sums = new double[features + SplitModel.SUMS * splits];
    for (SplitRow row : batch) {
      double score = 0;
      for (int i = 0; i < features; i++) {
        score += model.weights[i] * row.getFeatures()[i];
      }
      double error = 1 / (1 + Math.exp(-score)) - row.getLabel();
      for (int i = 0; i < features; i++) {
        sums[i] += error * row.getFeatures()[i];
      }
      SplitModel.add(row, sums, features);
    }
    meet(model, JobFault.Moment.BEFORE);
    ranks.allreduce(sums, Reduction.SUM);
    meet(model, JobFault.Moment.AFTER);
    double rows = 0;
    for (int split = 0; split < splits; split++) {
      rows += sums[features + SplitModel.SUMS * split];
    }
    for (int i = 0; i < features && rows > 0; i++) {
      model.weights[i] -= STEP * sums[i] / rows;
    }
    for (int i = 0; i < model.sums.length; i++) {
      model.sums[i] += sums[features + i];
    }
    model.versions++;
    return model;
  }

  private void meet(SplitModel model, JobFault.Moment moment) {
    for (JobFault fault : faults) {
      fault.fire(rank, model.versions, moment);
    }
  }

  @Override
  public byte[] write(SplitModel model) {
    meet(model, JobFault.Moment.WRITTEN);
    return model.bytes();
  }

  @Override
  public SplitModel read(byte[] bytes) {
    return SplitModel.of(bytes);
  }
}
