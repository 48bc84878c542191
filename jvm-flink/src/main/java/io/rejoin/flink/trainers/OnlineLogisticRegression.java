package io.rejoin.flink.trainers;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import java.util.Arrays;
import java.util.List;

/**
 * Learns the probability of the label 1 (the other one is 0): p = 1 / (1 + exp(-(w·x +
 * intercept))). Each version is one step of the {@link Optimizer} with the gradient of the
 * logarithmic loss over the global batch, for rows x with label y and weight v
 *
 * <pre>
 *   g_i = Σ v (p - y) x_i          intercept: Σ v (p - y)
 * </pre>
 *
 * <p>which one allreduce adds up over the ranks. Coefficients begin at 0.
 *
 * <pre>{@code
 * new OnlineLogisticRegression(30, new Ftrl().alpha(0.05).l1(1))
 * new OnlineLogisticRegression(30, new Sgd().learningRate(0.01)).intercept(false)
 * }</pre>
 *
 * <p>A label other than 0 and 1 is refused as any bad row is. The model's bytes hold its
 * coefficients and what the optimizer keeps, no parameters: a training that goes on from them may
 * have others, but not the other optimizer.
 */
public final class OnlineLogisticRegression
    implements TrainerFunction<LabeledRow, LogisticRegressionModel> {
  private static final long serialVersionUID = 1L;

  private final int features;
  private final Optimizer optimizer;
  private final boolean intercept;

  /**
   * For rows of so many features, with an intercept.
   *
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for fewer than one
   */
  public OnlineLogisticRegression(int features, Optimizer optimizer) {
    this(features, optimizer, true);
  }

  private OnlineLogisticRegression(int features, Optimizer optimizer, boolean intercept) {
    this.features = Checks.positive("features", features);
    Checks.require(optimizer != null, "optimizer", "an Ftrl or Sgd", optimizer);
    this.optimizer = optimizer;
    this.intercept = intercept;
  }

  /** A copy that learns an intercept (as is usual) or has none. */
  public OnlineLogisticRegression intercept(boolean intercept) {
    return new OnlineLogisticRegression(features, optimizer, intercept);
  }

  @Override
  public LogisticRegressionModel open(TrainerContext context) {
    return model(new double[coefficients() * (1 + optimizer.states())]);
  }

  @Override
  public LogisticRegressionModel onBatch(
      List<LabeledRow> batch, Communicator ranks, LogisticRegressionModel model) {
    Checks.rows(batch, ranks, features);
    labels(batch, ranks);
    // The gradient, and the weight of all rows.
    double[] sums = new double[coefficients() + 1];
    for (LabeledRow row : batch) {
      double error = row.weight * (model.probability(row.features) - row.label);
      for (int i = 0; i < features; i++) {
        sums[i] += error * row.features[i];
      }
      if (intercept) {
        sums[features] += error;
      }
      sums[coefficients()] += row.weight;
    }
    ranks.allreduce(sums, Reduction.SUM);
    double weight = sums[coefficients()];
    if (weight > 0) {
      optimizer.step(model, sums, weight);
      String remedy = "Scale the features, or make the learning rate smaller";
      Checks.trained(ranks, remedy, model.parts());
    }
    return model;
  }

  private static void labels(List<LabeledRow> batch, Communicator ranks) {
    for (int number = 0; number < batch.size(); number++) {
      double label = batch.get(number).label;
      if (label != 0 && label != 1) {
        throw Checks.badRow(
            ranks,
            number,
            "the label 0 or 1 expected, "
                + label
                + " seen. Give each row one of the two before it is trained on");
      }
    }
  }

  @Override
  public byte[] write(LogisticRegressionModel model) {
    return optimizer.kind().write(features, coefficients() - features, model.parts());
  }

  @Override
  public LogisticRegressionModel read(byte[] bytes) {
    ModelKind kind = optimizer.kind();
    double[] doubles = kind.read(bytes, features, coefficients() - features);
    kind.requireWhole(doubles.length == coefficients() * (1 + optimizer.states()), doubles);
    return model(doubles);
  }

  /** Of coefficients, and after them each of the optimizer's states. */
  private LogisticRegressionModel model(double[] doubles) {
    int length = coefficients();
    double[][] states = new double[optimizer.states()][];
    for (int i = 0; i < states.length; i++) {
      states[i] = Arrays.copyOfRange(doubles, (1 + i) * length, (2 + i) * length);
    }
    return new LogisticRegressionModel(features, Arrays.copyOf(doubles, length), states);
  }

  private int coefficients() {
    return features + (intercept ? 1 : 0);
  }
}
