package io.rejoin.flink.trainers;

import static io.rejoin.flink.trainers.References.assertClose;
import static io.rejoin.flink.trainers.References.assertFails;
import static io.rejoin.flink.trainers.References.joined;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.RejoinException.Code;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OnlineLogisticRegressionTest {
  private static final Ftrl FTRL = new Ftrl().alpha(0.3).beta(0.5).l1(0.75).l2(2);
  private static final Sgd SGD = new Sgd().learningRate(0.25).l1(0.05).l2(0.125);

  private static OnlineLogisticRegression trainer(Optimizer optimizer) {
    return new OnlineLogisticRegression(3, optimizer);
  }

  private static void assertAsReference(Optimizer optimizer, String file, int world)
      throws Exception {
    List<double[]> expected = References.lines(file);
    List<LogisticRegressionModel> models =
        References.train(trainer(optimizer), References.batches(3), world);
    assertEquals(expected.size(), models.size());
    for (int version = 0; version < models.size(); version++) {
      double[] seen = joined(models.get(version).parts());
      assertClose(expected.get(version), seen, "version " + version);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void each_version_by_ftrl_is_what_numpy_makes_of_the_papers_equations(int world)
      throws Exception {
    assertAsReference(FTRL, "ftrl.csv", world);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void each_version_by_sgd_is_what_numpy_makes_of_the_equations(int world) throws Exception {
    assertAsReference(SGD, "sgd.csv", world);
  }

  /** Algorithm 1 as the paper writes it, coordinate by coordinate, for rows one by one. */
  @Test
  void with_one_row_in_each_batch_ftrl_is_the_papers_algorithm() throws Exception {
    List<List<LabeledRow>> single = new ArrayList<>();
    double[] z = new double[3];
    double[] n = new double[3];
    for (List<LabeledRow> batch : References.batches(3)) {
      for (LabeledRow row : batch) {
        single.add(List.of(new LabeledRow(row.features, row.label)));
        double[] w = coefficients(z, n);
        double p =
            1
                / (1
                    + Math.exp(
                        -w[0] * row.features[0] - w[1] * row.features[1] - w[2] * row.features[2]));
        for (int i = 0; i < 3; i++) {
          double g = (p - row.label) * row.features[i];
          double sigma = (Math.sqrt(n[i] + g * g) - Math.sqrt(n[i])) / 0.3;
          z[i] += g - sigma * w[i];
          n[i] += g * g;
        }
      }
    }
    OnlineLogisticRegression trainer = trainer(FTRL).intercept(false);
    List<LogisticRegressionModel> models = References.train(trainer, single, 2);
    LogisticRegressionModel last = models.get(models.size() - 1);
    assertClose(coefficients(z, n), last.coefficients(), "coefficients");
    assertEquals(0, last.intercept());
  }

  private static double[] coefficients(double[] z, double[] n) {
    double[] w = new double[3];
    for (int i = 0; i < 3; i++) {
      double rate = 1 / ((0.5 + Math.sqrt(n[i])) / 0.3 + 2);
      w[i] = Math.abs(z[i]) <= 0.75 ? 0 : -rate * (z[i] - Math.signum(z[i]) * 0.75);
    }
    return w;
  }

  @Test
  void a_row_of_weight_two_counts_as_two_rows() throws Exception {
    LabeledRow one = new LabeledRow(new double[] {1, -2, 3}, 1);
    LabeledRow other = new LabeledRow(new double[] {2, 0.5, 0}, 0);
    LabeledRow twice = new LabeledRow(one.features, 1, 2);
    for (Optimizer optimizer : List.of(FTRL, SGD)) {
      double[][] expected = train(optimizer, List.of(List.of(one, other, one))).parts();
      double[][] seen = train(optimizer, List.of(List.of(other, twice))).parts();
      assertClose(joined(expected), joined(seen), optimizer.toString());
    }
  }

  @Test
  void a_batch_without_weight_at_any_rank_changes_nothing() throws Exception {
    LabeledRow row = new LabeledRow(new double[] {1, -2, 3}, 1);
    LabeledRow without = new LabeledRow(new double[] {5, 5, 5}, 0, 0);
    for (Optimizer optimizer : List.of(FTRL, SGD)) {
      OnlineLogisticRegression trainer = trainer(optimizer);
      byte[] expected = trainer.write(train(optimizer, List.of(List.of(row, row))));
      List<List<LabeledRow>> batches =
          List.of(List.of(), List.of(without), List.of(row, row), List.of(without), List.of());
      assertArrayEquals(expected, trainer.write(train(optimizer, batches)));
    }
  }

  @Test
  void coefficients_that_l1_outweighs_are_exactly_zero() throws Exception {
    LabeledRow row = new LabeledRow(new double[] {1, 0.01, 0}, 1);
    for (Optimizer optimizer : List.of(new Ftrl().l1(0.1), new Sgd().l1(0.1))) {
      LogisticRegressionModel model = train(optimizer, List.of(List.of(row), List.of(row)));
      assertEquals(true, model.coefficients()[0] > 0);
      assertArrayEquals(
          new double[] {0, 0}, new double[] {model.coefficients()[1], model.coefficients()[2]});
    }
  }

  @Test
  void the_model_predicts_what_it_has_learned() throws Exception {
    List<List<LabeledRow>> batches = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      batches.add(
          List.of(
              new LabeledRow(new double[] {3, 1, 0}, 1),
              new LabeledRow(new double[] {1, 1, 0}, 0)));
    }
    LogisticRegressionModel model = train(new Ftrl().alpha(1), batches);
    double margin = 3 * model.coefficients()[0] + model.coefficients()[1] + model.intercept();
    double[] row = {3, 1, 0};
    assertEquals(1 / (1 + Math.exp(-margin)), model.predictProbability(row), 1e-15);
    assertEquals(1, model.predict(row));
    assertEquals(0, model.predict(new double[] {1, 1, 0}));
    assertFails(Code.BAD_ARGUMENT, () -> model.predict(new double[2]), "3 features", "has 2");
    assertEquals(
        0.5, new LogisticRegressionModel(1, new double[1], null).predictProbability(new double[1]));
    LogisticRegressionModel steep = new LogisticRegressionModel(1, new double[] {1e300}, null);
    assertEquals(0, steep.predictProbability(new double[] {-1e300}));
    assertEquals(1, steep.predictProbability(new double[] {1e300}));
  }

  @Test
  void labels_other_than_zero_and_one_are_refused_with_their_row() {
    for (double label : new double[] {-1, 2, 0.5, Double.NaN}) {
      List<LabeledRow> rows =
          List.of(new LabeledRow(new double[3], 0), new LabeledRow(new double[3], label));
      assertFails(
          Code.TRAINING_FAILED,
          () -> References.train(trainer(SGD), List.of(List.of(), rows), 2),
          "row 1 (from 0) of rank 1's batch of version 1",
          "0 or 1 expected, " + label + " seen");
    }
  }

  @Test
  void a_model_that_is_not_finite_any_more_ends_the_training_with_what_to_do() {
    LabeledRow row = new LabeledRow(new double[] {1e200, 0, 0}, 1);
    assertFails(
        Code.TRAINING_FAILED,
        () -> train(new Ftrl(), List.of(List.of(row))),
        "seen after the batch of version 0",
        "Scale the features");
  }

  @Test
  void a_model_of_another_optimizer_or_without_intercept_is_refused() {
    OnlineLogisticRegression trainer = trainer(FTRL);
    byte[] bytes = trainer.write(trainer.open(null));
    assertFails(
        Code.INCOMPATIBLE,
        () -> trainer(SGD).read(bytes),
        "(OnlineLogisticRegression by Sgd, 3 features, 1 intercepts)",
        "(OnlineLogisticRegression by Ftrl, 3 features, 1 intercepts)");
    assertFails(Code.INCOMPATIBLE, () -> trainer.intercept(false).read(bytes), "0 intercepts");
    byte[] shorter = Arrays.copyOf(bytes, bytes.length - Double.BYTES);
    assertFails(Code.INCOMPATIBLE, () -> trainer.read(shorter), shorter.length + " bytes seen");
  }

  @Test
  void parameters_that_cannot_be_are_refused_at_construction() {
    assertFails(Code.BAD_ARGUMENT, () -> new OnlineLogisticRegression(0, SGD), "features");
    assertFails(Code.BAD_ARGUMENT, () -> new OnlineLogisticRegression(1, null), "Ftrl or Sgd");
    assertFails(Code.BAD_ARGUMENT, () -> FTRL.alpha(0), "alpha", "above 0; 0.0");
    assertFails(Code.BAD_ARGUMENT, () -> FTRL.beta(-1), "beta", "at least 0; -1.0");
    assertFails(Code.BAD_ARGUMENT, () -> FTRL.l1(Double.NaN), "l1");
    assertFails(Code.BAD_ARGUMENT, () -> FTRL.l2(Double.POSITIVE_INFINITY), "l2");
    assertFails(Code.BAD_ARGUMENT, () -> SGD.learningRate(0), "learningRate");
    assertFails(Code.BAD_ARGUMENT, () -> SGD.l1(-1), "l1");
    assertFails(Code.BAD_ARGUMENT, () -> SGD.l2(-1), "l2");
  }

  private static LogisticRegressionModel train(Optimizer optimizer, List<List<LabeledRow>> batches)
      throws Exception {
    List<LogisticRegressionModel> models = References.train(trainer(optimizer), batches, 2);
    return models.get(models.size() - 1);
  }
}
