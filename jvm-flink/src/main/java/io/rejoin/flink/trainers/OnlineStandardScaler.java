package io.rejoin.flink.trainers;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import java.util.Arrays;
import java.util.List;

/**
 * Learns mean and variance of each feature, to scale rows with ({@link StandardScalerModel}). After
 * any batches they are those of all rows together, as scikit-learn's {@code
 * StandardScaler.partial_fit} with {@code sample_weight} has them. Labels aren't looked at.
 *
 * <p>The update is the parallel one of Chan, Golub and LeVeque ("Updating Formulae and a Pairwise
 * Algorithm for Computing Sample Variances", 1979), with weights for counts. For rows A seen before
 * and B in the batch, with weights W, means m and sums of squares Q around the mean:
 *
 * <pre>
 *   W = W_A + W_B
 *   m = m_A + (m_B - m_A) W_B / W
 *   Q = Q_A + Q_B + (m_B - m_A)² W_A W_B / W
 * </pre>
 *
 * <p>What is added up over the ranks are a row's distances d = x - m_A: S = Σ w d and T = Σ w d²,
 * by which m = m_A + S / W and Q = Q_A + T - S² / W. Little is lost by the subtraction: T exceeds Q
 * by no more than the factor 2 + W_B / W_A. The first rows have no m_A: their own mean takes its
 * place, by a second allreduce in that version.
 *
 * <p>The mean of a stream that drifts is one of all its rows; nothing is forgotten.
 */
public final class OnlineStandardScaler
    implements TrainerFunction<LabeledRow, StandardScalerModel> {
  private static final long serialVersionUID = 1L;

  private final int features;

  /**
   * For rows of so many features.
   *
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for fewer than one
   */
  public OnlineStandardScaler(int features) {
    this.features = Checks.positive("features", features);
  }

  @Override
  public StandardScalerModel open(TrainerContext context) {
    return new StandardScalerModel(features);
  }

  @Override
  public StandardScalerModel onBatch(
      List<LabeledRow> batch, Communicator ranks, StandardScalerModel model) {
    Checks.rows(batch, ranks, features);
    if (model.weight() == 0) {
      center(batch, ranks, model.center());
    }
    double[] sums = new double[1 + 2 * features];
    for (LabeledRow row : batch) {
      sums[0] += row.weight;
      for (int i = 0; i < features; i++) {
        double distance = row.features[i] - model.center()[i];
        sums[1 + i] += row.weight * distance;
        sums[1 + features + i] += row.weight * distance * distance;
      }
    }
    ranks.allreduce(sums, Reduction.SUM);
    if (sums[0] > 0) {
      model.add(sums[0], sums, 1, 1 + features);
      String remedy = "Features or weights are too large to be squared: scale them down";
      Checks.trained(ranks, remedy, new double[] {model.weight()}, model.center(), model.squares());
    }
    return model;
  }

  /** Puts the mean of the batch's rows where distances are measured from. */
  private void center(List<LabeledRow> batch, Communicator ranks, double[] center) {
    double[] sums = new double[1 + features];
    for (LabeledRow row : batch) {
      sums[0] += row.weight;
      for (int i = 0; i < features; i++) {
        sums[1 + i] += row.weight * row.features[i];
      }
    }
    ranks.allreduce(sums, Reduction.SUM);
    for (int i = 0; i < features && sums[0] > 0; i++) {
      center[i] = sums[1 + i] / sums[0];
    }
  }

  @Override
  public byte[] write(StandardScalerModel model) {
    return ModelKind.STANDARD_SCALER.write(
        features, 0, new double[] {model.weight()}, model.center(), model.squares());
  }

  @Override
  public StandardScalerModel read(byte[] bytes) {
    double[] doubles = ModelKind.STANDARD_SCALER.read(bytes, features, 0);
    ModelKind.STANDARD_SCALER.requireWhole(doubles.length == 1 + 2 * features, doubles);
    return new StandardScalerModel(
        doubles[0],
        Arrays.copyOfRange(doubles, 1, 1 + features),
        Arrays.copyOfRange(doubles, 1 + features, doubles.length));
  }
}
