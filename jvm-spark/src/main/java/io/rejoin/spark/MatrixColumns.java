package io.rejoin.spark;

import java.io.Serializable;
import java.util.OptionalInt;

/** Where label, weight, margin, group and features are in a prepared row. */
final class MatrixColumns implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int NONE = -1;

  private final int label;
  private final int features;
  private final boolean areVectors;
  private int weight = NONE;
  private int margin = NONE;
  private int group = NONE;

  /** {@code areVectors}: whether features are a column of vectors, and not of arrays of floats. */
  MatrixColumns(int label, int features, boolean areVectors) {
    this.label = label;
    this.features = features;
    this.areVectors = areVectors;
  }

  MatrixColumns weight(OptionalInt column) {
    weight = column.orElse(NONE);
    return this;
  }

  MatrixColumns margin(OptionalInt column) {
    margin = column.orElse(NONE);
    return this;
  }

  MatrixColumns group(OptionalInt column) {
    group = column.orElse(NONE);
    return this;
  }

  int label() {
    return label;
  }

  int features() {
    return features;
  }

  boolean areVectors() {
    return areVectors;
  }

  int weight() {
    return weight;
  }

  int margin() {
    return margin;
  }

  int group() {
    return group;
  }

  boolean hasWeights() {
    return weight != NONE;
  }

  boolean hasMargins() {
    return margin != NONE;
  }

  boolean hasGroups() {
    return group != NONE;
  }

  /** As they stand in the head of a page. */
  int flags() {
    return (hasWeights() ? Page.WEIGHTS : 0)
        | (hasMargins() ? Page.MARGINS : 0)
        | (hasGroups() ? Page.GROUPS : 0);
  }
}
