package io.rejoin.flink.trainers;

import static io.rejoin.flink.trainers.References.assertClose;
import static io.rejoin.flink.trainers.References.assertFails;
import static io.rejoin.flink.trainers.References.joined;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException.Code;
import io.rejoin.flink.trainers.OnlineKMeans.TimeUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OnlineKMeansTest {
  private static final double[][] CENTERS = {{-1, -1, 0}, {1, 0.5, -2}, {0.5, 1, 3}};
  private static final OnlineKMeans GIVEN =
      new OnlineKMeans(3, 3).initialCenters(CENTERS, new double[] {0, 1, 0.5});
  private static final OnlineKMeans LINE = new OnlineKMeans(2, 1);

  private static double[] numbers(KMeansModel model) {
    return joined(joined(model.clusterCenters()), model.clusterWeights());
  }

  private static void assertAsReference(OnlineKMeans trainer, String file, int world)
      throws Exception {
    List<double[]> expected = References.lines(file);
    List<KMeansModel> models = References.train(trainer, References.batches(3), world);
    assertEquals(expected.size(), models.size());
    for (int version = 0; version < models.size(); version++) {
      assertClose(expected.get(version), numbers(models.get(version)), "version " + version);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void each_version_is_sparks_decayed_by_batches(int world) throws Exception {
    assertAsReference(GIVEN.decayFactor(0.5), "kmeans-batches.csv", world);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void each_version_is_sparks_decayed_by_points(int world) throws Exception {
    OnlineKMeans trainer = GIVEN.decayFactor(0.96875).timeUnit(TimeUnit.POINTS);
    assertAsReference(trainer, "kmeans-points.csv", world);
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void centers_are_drawn_from_the_same_rows_by_any_number_of_ranks(int world) throws Exception {
    List<List<LabeledRow>> batches = References.batches(3);
    OnlineKMeans trainer = new OnlineKMeans(4, 3).decayFactor(0.9).seed(5);
    List<KMeansModel> alone = References.train(trainer, batches, 1);
    List<KMeansModel> together = References.train(trainer, batches, world);
    for (int version = 0; version < batches.size(); version++) {
      double[] expected = numbers(alone.get(version));
      assertClose(expected, numbers(together.get(version)), "version " + version);
    }
    assertEquals(4, alone.get(0).clusterCenters().length);
  }

  @Test
  void a_row_that_was_drawn_is_a_center_and_another_seed_draws_others() throws Exception {
    Set<Double> drawn = new HashSet<>();
    for (long seed = 0; seed < 20; seed++) {
      List<LabeledRow> rows = List.of(at(0), at(1), at(2), at(-0.0), at(9, 0), at(1));
      // Each center is one of the distinct rows and gets no other, so it stays where it is.
      KMeansModel model = last(new OnlineKMeans(3, 1).seed(seed), List.of(rows));
      double[] centers = joined(model.clusterCenters());
      drawn.add(centers[0]);
      Arrays.sort(centers);
      assertArrayEquals(new double[] {0, 1, 2}, centers);
    }
    assertEquals(Set.of(0.0, 1.0, 2.0), drawn);
  }

  @Test
  void each_distinct_row_is_as_likely_a_center_as_another() {
    int[] first = new int[4];
    for (long seed = 0; seed < 4000; seed++) {
      DistinctRows rows = new DistinctRows(1, 1, seed);
      for (double row : new double[] {0, 1, 1, 2, 3}) {
        rows.add(new double[] {row}, 1 + row);
      }
      first[(int) rows.table()[0]]++;
    }
    for (int count : first) {
      assertTrue(count > 850 && count < 1150, Arrays.toString(first));
    }
  }

  @Test
  void rows_that_are_too_few_for_centers_wait_and_are_trained_on_later() throws Exception {
    List<List<LabeledRow>> batches =
        List.of(
            List.of(),
            List.of(at(1), at(5), at(1, 2)),
            List.of(),
            List.of(at(5, 3), at(1)),
            List.of(at(9)));
    OnlineKMeans trainer = new OnlineKMeans(3, 1).decayFactor(0.5);
    List<KMeansModel> models = References.train(trainer, batches, 4);
    for (int version = 0; version < 4; version++) {
      KMeansModel waiting = models.get(version);
      assertEquals(0, numbers(waiting).length, "version " + version);
      assertFails(Code.BAD_STATE, () -> waiting.predict(new double[1]), "for 3 clusters", "later");
    }
    KMeansModel begun = models.get(4);
    double[] weights = new double[10];
    for (double center : new double[] {1, 5, 9}) {
      weights[(int) center] = begun.clusterWeights()[begun.predict(new double[] {center})];
    }
    assertArrayEquals(new double[] {0, 4, 0, 0, 0, 4, 0, 0, 0, 1}, weights);
  }

  @Test
  void the_order_of_rows_and_ranks_does_not_decide_what_is_drawn() throws Exception {
    List<LabeledRow> rows = new ArrayList<>(References.batches(3).get(7));
    KMeansModel expected = last(new OnlineKMeans(5, 3), List.of(rows));
    Collections.reverse(rows);
    assertClose(
        numbers(expected), numbers(last(new OnlineKMeans(5, 3), List.of(rows))), "reversed");
  }

  @Test
  void a_batch_without_weight_at_any_rank_changes_and_decays_nothing() throws Exception {
    for (TimeUnit unit : TimeUnit.values()) {
      OnlineKMeans trainer = LINE.decayFactor(0.5).timeUnit(unit);
      List<LabeledRow> rows = List.of(at(1), at(2), at(7), at(8));
      List<List<LabeledRow>> batches =
          List.of(List.of(), List.of(at(9, 0)), rows, List.of(), List.of(at(9, 0)), List.of());
      byte[] expected = trainer.write(last(trainer, List.of(rows)));
      assertArrayEquals(expected, trainer.write(last(trainer, batches)));
    }
  }

  @Test
  void a_row_of_weight_two_counts_as_two_rows() throws Exception {
    for (TimeUnit unit : TimeUnit.values()) {
      OnlineKMeans trainer =
          LINE.decayFactor(0.75)
              .timeUnit(unit)
              .initialCenters(new double[][] {{0}, {10}}, new double[] {1, 1});
      List<List<LabeledRow>> twice = List.of(List.of(at(1), at(1), at(7)), List.of(at(2), at(2)));
      List<List<LabeledRow>> weighted = List.of(List.of(at(1, 2), at(7)), List.of(at(2, 2)));
      assertClose(numbers(last(trainer, twice)), numbers(last(trainer, weighted)), "" + unit);
    }
  }

  @Test
  void a_center_without_rows_stays_and_its_weight_decays() throws Exception {
    OnlineKMeans trainer =
        LINE.decayFactor(0.5).initialCenters(new double[][] {{0}, {10}}, new double[] {4, 4});
    KMeansModel model = last(trainer, List.of(List.of(at(3), at(1))));
    assertArrayEquals(new double[] {1, 10, 4, 2}, numbers(model));
  }

  @Test
  void the_largest_cluster_is_split_where_one_is_dying() throws Exception {
    OnlineKMeans trainer =
        LINE.initialCenters(new double[][] {{-1e6}, {1000}}, new double[] {0, 3});
    KMeansModel model = last(trainer, List.of(List.of(at(1000))));
    assertArrayEquals(new double[] {2, 2}, model.clusterWeights());
    double[][] centers = model.clusterCenters();
    assertEquals(1000 - 1e-6, centers[0][0], 1e-10);
    assertEquals(1000 + 1e-6, centers[1][0], 1e-10);
    assertEquals(0, model.predict(new double[] {999}));
    assertEquals(1, model.predict(new double[] {1001}));
  }

  @Test
  void a_row_belongs_to_the_nearest_center_and_to_the_first_of_several() {
    KMeansModel model = GIVEN.open(null);
    assertEquals(2, model.predict(new double[] {0.5, 1, 2}));
    assertEquals(
        0,
        LINE.initialCenters(new double[][] {{1}, {3}}, new double[2])
            .open(null)
            .predict(new double[] {2}));
    assertFails(Code.BAD_ARGUMENT, () -> model.predict(new double[2]), "3 features", "has 2");
    assertFails(
        Code.BAD_ARGUMENT, () -> model.predict(new double[] {0, Double.NaN, 0}), "feature 1");
    assertFails(Code.BAD_ARGUMENT, () -> model.predict(new double[] {1e200, 0, 0}), "too far");
  }

  @Test
  void numbers_that_are_too_large_end_the_training_with_what_to_do() {
    List<LabeledRow> far = List.of(at(0), at(1e200));
    OnlineKMeans given = LINE.initialCenters(new double[][] {{0}, {1}}, new double[2]);
    assertFails(
        Code.TRAINING_FAILED,
        () -> last(given, List.of(far)),
        "row 0 (from 0) of rank 1's batch of version 0",
        "Scale the features down");
    List<LabeledRow> heavy = List.of(at(1.5e308), at(1.5e308));
    OnlineKMeans near = LINE.initialCenters(new double[][] {{1.5e308}, {0}}, new double[2]);
    assertFails(
        Code.TRAINING_FAILED, () -> last(near, List.of(heavy)), "seen after", "scale them down");
  }

  @Test
  void a_model_of_other_clusters_is_refused() {
    byte[] bytes = GIVEN.write(GIVEN.open(null));
    assertFails(
        Code.INCOMPATIBLE,
        () -> new OnlineKMeans(2, 3).read(bytes),
        "(OnlineKMeans, 3 features, 2 clusters)",
        "(OnlineKMeans, 3 features, 3 clusters)");
    byte[] longer = Arrays.copyOf(bytes, bytes.length + 4 * Double.BYTES);
    assertFails(Code.INCOMPATIBLE, () -> GIVEN.read(longer), "bytes seen");
    byte[] shorter = Arrays.copyOf(bytes, bytes.length - Double.BYTES);
    assertFails(Code.INCOMPATIBLE, () -> GIVEN.read(shorter), "bytes seen");
  }

  @Test
  void parameters_that_cannot_be_are_refused_at_construction() {
    double[] none = {0, 0};
    assertFails(Code.BAD_ARGUMENT, () -> new OnlineKMeans(0, 1), "k has to be", "; 0");
    assertFails(Code.BAD_ARGUMENT, () -> new OnlineKMeans(1, 0), "features has to be", "; 0");
    assertFails(Code.BAD_ARGUMENT, () -> LINE.decayFactor(1.5), "decayFactor", "from 0 to 1; 1.5");
    assertFails(Code.BAD_ARGUMENT, () -> LINE.decayFactor(-0.5), "decayFactor");
    assertFails(Code.BAD_ARGUMENT, () -> LINE.decayFactor(Double.NaN), "decayFactor");
    assertFails(Code.BAD_ARGUMENT, () -> LINE.timeUnit(null), "BATCHES or POINTS");
    assertFails(
        Code.BAD_ARGUMENT, () -> LINE.initialCenters(new double[][] {{1}}, none), "2 centers; 1");
    assertFails(
        Code.BAD_ARGUMENT,
        () -> LINE.initialCenters(new double[][] {{1}, {2}}, new double[3]),
        "2 weights; 3");
    assertFails(
        Code.BAD_ARGUMENT,
        () -> LINE.initialCenters(new double[][] {{1}, {2, 3}}, none),
        "1 numbers; 2");
    assertFails(
        Code.BAD_ARGUMENT,
        () -> LINE.initialCenters(new double[][] {{1}, {Double.NaN}}, none),
        "finite numbers; NaN");
    assertFails(
        Code.BAD_ARGUMENT,
        () -> LINE.initialCenters(new double[][] {{1}, {2}}, new double[] {0, -1}),
        "an initial weight");
  }

  @Test
  void training_leaves_the_given_centers_as_they_are() throws Exception {
    byte[] before = GIVEN.write(GIVEN.open(null));
    last(GIVEN, References.batches(3));
    assertArrayEquals(before, GIVEN.write(GIVEN.open(null)));
    assertFalse(Arrays.equals(before, GIVEN.write(last(GIVEN, References.batches(3)))));
  }

  private static LabeledRow at(double feature) {
    return at(feature, 1);
  }

  private static LabeledRow at(double feature, double weight) {
    return new LabeledRow(new double[] {feature}, Double.NaN, weight);
  }

  private static KMeansModel last(OnlineKMeans trainer, List<List<LabeledRow>> batches)
      throws Exception {
    List<KMeansModel> models = References.train(trainer, batches, 2);
    return models.get(models.size() - 1);
  }
}
