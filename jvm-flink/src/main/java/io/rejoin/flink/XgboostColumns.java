package io.rejoin.flink;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.types.Row;

/** Which columns of the rows XGBoost trains on; all but features and label may be null. */
final class XgboostColumns implements Serializable {
  private static final long serialVersionUID = 1L;

  String[] features = {};
  String label;
  String weight;
  String group;
  String evaluation;
  String order;

  /** What is named later doesn't change it. */
  XgboostColumns copy() {
    XgboostColumns copy = new XgboostColumns();
    copy.features = features;
    copy.label = label;
    copy.weight = weight;
    copy.group = group;
    copy.evaluation = evaluation;
    copy.order = order;
    return copy;
  }

  /** How many keys a row has. */
  int keys() {
    return (isGrouped() ? 1 : 0) + (isOrdered() ? 1 : 0);
  }

  /** Whether rows are in query groups, for ranking; a row's first key names its group. */
  boolean isGrouped() {
    return group != null;
  }

  /** Whether a column orders the rows; a row's last key is its number. */
  boolean isOrdered() {
    return order != null;
  }

  boolean hasEvaluation() {
    return evaluation != null;
  }

  /** All that are named. */
  List<String> all() {
    List<String> all = new ArrayList<>(List.of(features));
    for (String column : new String[] {label, weight, group, evaluation, order}) {
      if (column != null) {
        all.add(column);
      }
    }
    return all;
  }

  boolean isForEvaluation(Row row) {
    return hasEvaluation() && RowNumbers.flag(row, evaluation);
  }

  long[] keys(Row row) {
    long[] keys = new long[keys()];
    if (isGrouped()) {
      keys[0] = RowNumbers.wholeNumber(row, group);
    }
    if (isOrdered()) {
      keys[keys.length - 1] = RowNumbers.wholeNumber(row, order);
    }
    return keys;
  }

  float label(Row row) {
    return (float) RowNumbers.number(row, label);
  }

  float weight(Row row) {
    return weight == null ? 1 : (float) RowNumbers.number(row, weight);
  }

  /** NULLs are missing values. */
  double[] features(Row row) {
    return RowNumbers.numbers(row, features, true);
  }
}
