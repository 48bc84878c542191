package io.rejoin.flink.trainers;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.RejoinException;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import java.util.Arrays;
import java.util.List;

/**
 * Clusters by k-means with decay, as Spark's StreamingKMeans does (its guide, "Streaming k-means").
 * Of each cluster there are a center c and a weight n, at first those given or 0. Every row of the
 * global batch goes to the nearest center, and with the weights m and means x of what each center
 * has got
 *
 * <pre>
 *   c = (c n a + x m) / (n a + m)
 *   n = n a + m
 * </pre>
 *
 * <p>where a is {@link #decayFactor} for {@link TimeUnit#BATCHES}, and decayFactor to the power of
 * all m together for {@link TimeUnit#POINTS}. A center without rows stays where it is. Then, if the
 * smallest weight is below 1e-8 of the largest, that one's cluster takes the dying one's place with
 * half of its weight. Each version is one such update; one allreduce adds up over the ranks.
 *
 * <p>What differs from Spark: rows have weights; a batch without any (no row at any rank) is no
 * batch, so nothing decays, since it is time that decides how many of those there are; and the
 * halves of a split cluster are 1e-9 of their center (or of 1) to either side, not 1e-14, where
 * rounding, and with it the number of ranks, would decide about the side of many a row.
 *
 * <p>Without {@link #initialCenters} the first centers are k of the distinct rows, each as likely
 * as another, drawn by a hash of {@link #seed} and features: the same ones however the rows are
 * divided among the ranks. Should the first batches have fewer distinct rows than k, their rows
 * wait in the model and are trained on with the batch that brings the rest. These versions have
 * another collective, which gathers up to k rows of each rank.
 *
 * <p>A row that is as far from two centers, to the last bits, may go to another one with another
 * number of ranks.
 */
public final class OnlineKMeans implements TrainerFunction<LabeledRow, KMeansModel> {
  private static final long serialVersionUID = 1L;

  /** What a decay is counted by. */
  public enum TimeUnit {
    /** Each batch with a row decays what was before by the factor, however many rows it has. */
    BATCHES,
    /** Each row does, by its weight. */
    POINTS
  }

  private final int k;
  private final int features;
  private double decayFactor = 1;
  private TimeUnit timeUnit = TimeUnit.BATCHES;
  private long seed;
  // Empty, or for each cluster its center and weight.
  private double[] initial = {};

  /**
   * For so many clusters of rows with so many features; without decay, and the seed 0.
   *
   * @throws RejoinException BAD_ARGUMENT for fewer than one
   */
  public OnlineKMeans(int k, int features) {
    this.k = Checks.positive("k", k);
    this.features = Checks.positive("features", features);
  }

  private OnlineKMeans(OnlineKMeans from) {
    k = from.k;
    features = from.features;
    decayFactor = from.decayFactor;
    timeUnit = from.timeUnit;
    seed = from.seed;
    initial = from.initial;
  }

  /**
   * A copy that forgets: from 0, where the newest rows alone count, to 1, where all count the same.
   * For a half-life of h time units it is 0.5 to the power of 1 / h.
   */
  public OnlineKMeans decayFactor(double decayFactor) {
    boolean holds = decayFactor >= 0 && decayFactor <= 1;
    Checks.require(holds, "decayFactor", "a number from 0 to 1", decayFactor);
    OnlineKMeans copy = new OnlineKMeans(this);
    copy.decayFactor = decayFactor;
    return copy;
  }

  /** A copy that counts decay by this. */
  public OnlineKMeans timeUnit(TimeUnit timeUnit) {
    Checks.require(timeUnit != null, "timeUnit", "BATCHES or POINTS", timeUnit);
    OnlineKMeans copy = new OnlineKMeans(this);
    copy.timeUnit = timeUnit;
    return copy;
  }

  /** A copy that draws its first centers by another seed. */
  public OnlineKMeans seed(long seed) {
    OnlineKMeans copy = new OnlineKMeans(this);
    copy.seed = seed;
    return copy;
  }

  /**
   * A copy that begins with these centers instead of drawing any.
   *
   * @param centers k of them, each with all features
   * @param weights how much each counts against the first rows; with 0 not at all
   */
  public OnlineKMeans initialCenters(double[][] centers, double[] weights) {
    Checks.require(centers.length == k, "initialCenters", k + " centers", centers.length);
    Checks.require(weights.length == k, "initialCenters", k + " weights", weights.length);
    OnlineKMeans copy = new OnlineKMeans(this);
    copy.initial = new double[k * (features + 1)];
    for (int cluster = 0; cluster < k; cluster++) {
      int at = cluster * (features + 1);
      int given = centers[cluster].length;
      Checks.require(given == features, "an initial center", features + " numbers", given);
      for (int i = 0; i < features; i++) {
        double number = centers[cluster][i];
        Checks.require(Double.isFinite(number), "an initial center", "finite numbers", number);
        copy.initial[at + i] = number;
      }
      copy.initial[at + features] = Checks.notNegative("an initial weight", weights[cluster]);
    }
    return copy;
  }

  @Override
  public KMeansModel open(TrainerContext context) {
    return new KMeansModel(k, features, initial.clone());
  }

  @Override
  public KMeansModel onBatch(List<LabeledRow> batch, Communicator ranks, KMeansModel model) {
    Checks.rows(batch, ranks, features);
    double[] waiting = {};
    if (!model.begun()) {
      waiting = model.table();
      model = draw(batch, ranks, waiting);
      if (!model.begun()) {
        return model;
      }
    }
    double[] sums = sums(batch, waiting, ranks, model);
    ranks.allreduce(sums, Reduction.SUM);
    double weight = 0;
    for (int at = features; at < sums.length; at += features + 1) {
      weight += sums[at];
    }
    if (weight > 0) {
      model.update(sums, discount(weight));
      Checks.trained(ranks, "Features or weights are too large: scale them down", model.table());
    }
    return model;
  }

  /** StrictMath has the same bits on every machine, and the model is the same at all ranks. */
  private double discount(double weight) {
    return timeUnit == TimeUnit.BATCHES ? decayFactor : StrictMath.pow(decayFactor, weight);
  }

  /**
   * A model with centers of no weight, drawn from the rows of all ranks and those that wait; or,
   * where there are too few, one with all of these waiting.
   */
  private KMeansModel draw(List<LabeledRow> batch, Communicator ranks, double[] waiting) {
    DistinctRows own = new DistinctRows(k, features, seed);
    for (LabeledRow row : batch) {
      own.add(row.features, row.weight);
    }
    DistinctRows all = new DistinctRows(k, features, seed);
    all.addAll(waiting);
    for (double[] part : ranks.allgatherV(own.table())) {
      all.addAll(part);
    }
    KMeansModel model = new KMeansModel(k, features, all.table());
    if (model.begun()) {
      for (int at = features; at < model.table().length; at += features + 1) {
        model.table()[at] = 0;
      }
    }
    return model;
  }

  /** Of the batch, and at one rank of the rows that wait, which all ranks have. */
  private double[] sums(
      List<LabeledRow> batch, double[] waiting, Communicator ranks, KMeansModel model) {
    double[] sums = new double[k * (features + 1)];
    for (int number = 0; number < batch.size(); number++) {
      LabeledRow row = batch.get(number);
      if (!add(row.features, row.weight, model, sums)) {
        throw Checks.badRow(ranks, number, KMeansModel.TOO_FAR);
      }
    }
    for (int at = 0; ranks.rank() == 0 && at < waiting.length; at += features + 1) {
      double[] row = Arrays.copyOfRange(waiting, at, at + features);
      if (!add(row, waiting[at + features], model, sums)) {
        throw new RejoinException(
            RejoinException.Code.TRAINING_FAILED,
            "a row of an earlier batch can't be trained on: " + KMeansModel.TOO_FAR);
      }
    }
    return sums;
  }

  /** False for a row that is too far from every center. */
  private boolean add(double[] row, double weight, KMeansModel model, double[] sums) {
    int nearest = model.nearest(row);
    if (nearest < 0) {
      return false;
    }
    int at = nearest * (features + 1);
    for (int i = 0; i < features; i++) {
      sums[at + i] += weight * row[i];
    }
    sums[at + features] += weight;
    return true;
  }

  @Override
  public byte[] write(KMeansModel model) {
    return ModelKind.KMEANS.write(features, k, model.table());
  }

  @Override
  public KMeansModel read(byte[] bytes) {
    double[] table = ModelKind.KMEANS.read(bytes, features, k);
    boolean whole = table.length % (features + 1) == 0 && table.length <= k * (features + 1);
    ModelKind.KMEANS.requireWhole(whole, table);
    return new KMeansModel(k, features, table);
  }
}
