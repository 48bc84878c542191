package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;
import java.io.Serializable;
import java.util.Arrays;

/** The clusters that an {@link OnlineKMeans} has found. */
public final class KMeansModel implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final double DYING = 1e-8;
  private static final double APART = 1e-9;

  /** What a row is that no distance can be given for. */
  static final String TOO_FAR =
      "a distance that is a finite number expected, but the row is too far from every center. Scale"
          + " the features down";

  private final int k;
  private final int features;
  // For each cluster its center's features and then its weight. Before there are k distinct rows to
  // begin with, those that have been seen, in the same way.
  private final double[] table;

  /** With a table that it keeps. */
  KMeansModel(int k, int features, double[] table) {
    this.k = k;
    this.features = features;
    this.table = table;
  }

  /** The center of each cluster; none while fewer distinct rows than clusters have been seen. */
  public double[][] clusterCenters() {
    double[][] centers = new double[begun() ? k : 0][];
    for (int cluster = 0; cluster < centers.length; cluster++) {
      int at = cluster * (features + 1);
      centers[cluster] = Arrays.copyOfRange(table, at, at + features);
    }
    return centers;
  }

  /** How much each center counts against rows to come: the weight of its rows, decayed. */
  public double[] clusterWeights() {
    double[] weights = new double[begun() ? k : 0];
    for (int cluster = 0; cluster < weights.length; cluster++) {
      weights[cluster] = weight(cluster);
    }
    return weights;
  }

  /**
   * The cluster whose center is nearest, from 0; the first one of several.
   *
   * @throws RejoinException BAD_ARGUMENT for another number of features, one that isn't finite, or
   *     a row whose distances are too large for a number; BAD_STATE while there are no centers
   */
  public int predict(double[] row) {
    Checks.applied(row, features);
    if (!begun()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE,
          "a model with centers expected, one seen that has met "
              + table.length / (features + 1)
              + " distinct rows for "
              + k
              + " clusters. Wait for a later version, or give the trainer initial centers");
    }
    int nearest = nearest(row);
    if (nearest < 0) {
      throw new RejoinException(RejoinException.Code.BAD_ARGUMENT, TOO_FAR);
    }
    return nearest;
  }

  /** Whether there are centers. */
  boolean begun() {
    return table.length == k * (features + 1);
  }

  /** The table itself. */
  double[] table() {
    return table;
  }

  /** As {@link #predict} for a row that was checked; -1 where {@link #TOO_FAR}. */
  int nearest(double[] row) {
    int nearest = -1;
    double least = Double.POSITIVE_INFINITY;
    for (int cluster = 0; cluster < k; cluster++) {
      int at = cluster * (features + 1);
      double distance = 0;
      for (int i = 0; i < features; i++) {
        double apart = row[i] - table[at + i];
        distance += apart * apart;
      }
      if (distance < least) {
        least = distance;
        nearest = cluster;
      }
    }
    return nearest;
  }

  /**
   * Moves each center to the mean of what it was, with its weight times the discount, and its new
   * rows.
   *
   * @param sums of the rows of each cluster, in a table: Σ weight x, and Σ weight
   */
  void update(double[] sums, double discount) {
    for (int cluster = 0; cluster < k; cluster++) {
      int at = cluster * (features + 1);
      double added = sums[at + features];
      double weight = weight(cluster) * discount + added;
      table[at + features] = weight;
      for (int i = 0; added > 0 && i < features; i++) {
        double share = added / weight;
        table[at + i] = (1 - share) * table[at + i] + share / added * sums[at + i];
      }
    }
    splitLargestIfOneDies();
  }

  private void splitLargestIfOneDies() {
    int largest = 0;
    int smallest = 0;
    for (int cluster = 1; cluster < k; cluster++) {
      largest = weight(cluster) > weight(largest) ? cluster : largest;
      smallest = weight(cluster) < weight(smallest) ? cluster : smallest;
    }
    if (weight(smallest) >= DYING * weight(largest)) {
      return;
    }
    int from = largest * (features + 1);
    int to = smallest * (features + 1);
    double half = (weight(largest) + weight(smallest)) / 2;
    for (int i = 0; i < features; i++) {
      double center = table[from + i];
      double apart = APART * Math.max(Math.abs(center), 1);
      table[from + i] = center + apart;
      table[to + i] = center - apart;
    }
    table[from + features] = half;
    table[to + features] = half;
  }

  private double weight(int cluster) {
    return table[cluster * (features + 1) + features];
  }
}
