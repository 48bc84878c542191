package io.rejoin.spark;

import io.rejoin.xgboost.BatchMatrix;
import io.rejoin.xgboost.Matrices;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;

/** Makes a rank's matrices of pages: those that the stock estimator would make of the same rows. */
final class PageMatrices implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final List<String> NAMES = List.of("train", "eval");

  private final float missing;
  private final String[] featureNames;
  private final String[] featureTypes;

  /**
   * With XGBoost's own description of features.
   *
   * @param features their names and types, and the value that is as good as none
   */
  PageMatrices(FeatureDescription features) {
    this.missing = features.missing();
    this.featureNames = features.names();
    this.featureTypes = features.types();
  }

  /** One element for each partition: the matrices to train on and to evaluate on. */
  RDD<Matrices> of(List<PreparedInput> inputs) {
    ArrayList<RDD<byte[]>> pages =
        inputs.stream()
            .map(each -> each.stored().pages())
            .collect(Collectors.toCollection(ArrayList::new));
    return new DerivedRdd<>(
        Matrices.class,
        pages,
        (split, context) -> Collections.singletonList(open(pages, split, context)).iterator());
  }

  private Matrices open(List<RDD<byte[]>> pages, DerivedRdd.Split split, TaskContext context) {
    Opened opened = new Opened();
    try {
      for (int i = 0; i < pages.size(); i++) {
        opened.byName.put(
            NAMES.get(i),
            matrix(ScalaCollections.iterator(pages.get(i).iterator(split.of(i), context))));
      }
      return opened;
    } catch (Exception failed) {
      opened.close();
      throw Sneaky.rethrown(failed);
    }
  }

  /** What the stock estimator does with the rows of a partition, in the same order. */
  private DMatrix matrix(Iterator<byte[]> pages) throws Exception {
    PageBatches batches = new PageBatches(pages);
    DMatrix matrix = BatchMatrix.of(batches, missing);
    try {
      describe(matrix, batches);
      return matrix;
    } catch (XGBoostError | RuntimeException failed) {
      matrix.dispose();
      throw failed;
    }
  }

  private void describe(DMatrix matrix, PageBatches batches) throws XGBoostError {
    if (batches.hasMargins()) {
      matrix.setBaseMargin(batches.margins());
    }
    if (batches.hasGroups()) {
      matrix.setGroup(batches.groupSizes());
      matrix.setWeight(batches.groupWeights());
    }
    if (featureTypes.length > 0) {
      matrix.setFeatureTypes(featureTypes);
    }
    if (featureNames.length > 0) {
      matrix.setFeatureNames(featureNames);
    }
  }

  private static final class Opened implements Matrices {
    private final LinkedHashMap<String, DMatrix> byName = new LinkedHashMap<>();

    @Override
    public Map<String, DMatrix> byName() {
      return Collections.unmodifiableMap(byName);
    }

    @Override
    public void close() {
      byName.values().forEach(DMatrix::dispose);
    }
  }
}
