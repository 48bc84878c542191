package io.rejoin.flink.trainers;

import static io.rejoin.flink.trainers.References.assertClose;
import static io.rejoin.flink.trainers.References.assertFails;
import static io.rejoin.flink.trainers.References.joined;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException.Code;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OnlineStandardScalerTest {
  private static final OnlineStandardScaler TRAINER = new OnlineStandardScaler(4);

  private static List<StandardScalerModel> train(List<List<LabeledRow>> batches, int world)
      throws Exception {
    return References.train(TRAINER, batches, world);
  }

  private static double[] numbers(StandardScalerModel model) {
    return joined(new double[] {model.weight()}, model.mean(), model.variance(), model.scale());
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void each_version_is_what_scikit_learn_has_after_the_same_batches(int world) throws Exception {
    List<double[]> expected = References.lines("scaler.csv");
    List<StandardScalerModel> models = train(References.batches(4), world);
    assertEquals(expected.size(), models.size());
    for (int version = 0; version < models.size(); version++) {
      assertClose(expected.get(version), numbers(models.get(version)), "version " + version);
    }
  }

  @Test
  void a_batch_without_weight_at_any_rank_changes_nothing() throws Exception {
    List<List<LabeledRow>> batches =
        List.of(
            List.of(),
            List.of(row(9, 0)),
            List.of(row(1, 1), row(4, 2)),
            List.of(),
            List.of(row(9, 0)));
    List<StandardScalerModel> models = train(batches, 2);
    assertArrayEquals(new double[] {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}, numbers(models.get(1)));
    assertArrayEquals(
        new double[] {3, 3, 0, 0, 0, 2, 0, 0, 0, Math.sqrt(2), 1, 1, 1}, numbers(models.get(2)));
    assertArrayEquals(TRAINER.write(models.get(2)), TRAINER.write(models.get(4)));
  }

  @Test
  void features_are_given_in_standard_deviations_from_the_mean() throws Exception {
    List<StandardScalerModel> models = train(List.of(List.of(row(1, 1), row(5, 1))), 1);
    assertArrayEquals(
        new double[] {-1.5, 7, 0, 0}, models.get(0).transform(new double[] {0, 7, 0, 0}));
    assertFails(
        Code.BAD_ARGUMENT, () -> models.get(0).transform(new double[3]), "4 features", "has 3");
    assertFails(
        Code.BAD_STATE, () -> new StandardScalerModel(4).transform(new double[4]), "later version");
  }

  @Test
  void little_is_lost_where_the_mean_is_far_from_where_it_was() throws Exception {
    List<List<LabeledRow>> batches =
        List.of(
            List.of(row(-1e8, 1), row(-1e8 + 2, 1)),
            List.of(row(1e8, 1), row(1e8 + 2, 1), row(1e8 + 4, 1), row(1e8 - 2, 1)));
    StandardScalerModel model = train(batches, 2).get(1);
    // By hand: the mean is 1e8 / 3 + 1, squares (4/3 1e8)² 2 + 4 (2/3 1e8)² and what is left.
    double mean = 1e8 / 3 + 1;
    double squares = 0;
    for (List<LabeledRow> batch : batches) {
      for (LabeledRow row : batch) {
        squares += (row.features[0] - mean) * (row.features[0] - mean);
      }
    }
    assertClose(new double[] {mean}, new double[] {model.mean()[0]}, "mean");
    assertClose(new double[] {squares / 6}, new double[] {model.variance()[0]}, "variance");
  }

  @Test
  void a_feature_that_varies_by_no_more_than_rounding_is_divided_by_one() throws Exception {
    List<LabeledRow> rows = List.of(row(1e8, 1), row(Math.nextUp(1e8), 1));
    StandardScalerModel model = train(List.of(rows), 2).get(0);
    assertTrue(model.variance()[0] > 0);
    assertEquals(1, model.scale()[0]);
  }

  @Test
  void no_variance_is_negative_where_rounding_would_make_it_so() throws Exception {
    double third = 1 / 3.0;
    List<LabeledRow> rows = List.of(row(third, 0.1), row(third, 3), row(third, 0.7));
    StandardScalerModel model = train(List.of(rows), 1).get(0);
    assertEquals(0, model.variance()[0]);
  }

  @Test
  void numbers_that_cannot_be_squared_end_the_training_with_what_to_do() {
    assertFails(
        Code.TRAINING_FAILED,
        () -> train(List.of(List.of(row(1e200, 1), row(2, 1))), 2),
        "after the batch of version 0",
        "scale them down");
  }

  @Test
  void a_scaler_needs_a_feature() {
    assertFails(Code.BAD_ARGUMENT, () -> new OnlineStandardScaler(0), "features", "above 0; 0");
  }

  private static LabeledRow row(double first, double weight) {
    return new LabeledRow(new double[] {first, 0, 0, 0}, Double.NaN, weight);
  }
}
