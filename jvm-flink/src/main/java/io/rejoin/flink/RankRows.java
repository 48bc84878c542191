package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import io.rejoin.xgboost.Matrices;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;
import org.apache.flink.types.Row;

/**
 * All rows of a rank that XGBoost trains: Flink's thread adds them and takes snapshots, and when
 * the input has ended the rank's thread makes matrices of them.
 */
final class RankRows {
  private final XgboostColumns columns;
  private final float missing;
  private final int world;
  private final MatrixRows training;
  private final MatrixRows evaluation;

  /**
   * Of these columns.
   *
   * @param missing the value of a feature that means that there is none, beside NaN
   */
  RankRows(XgboostColumns columns, float missing, int world) {
    this.columns = columns;
    this.missing = missing;
    this.world = world;
    this.training = new MatrixRows(columns.keys());
    this.evaluation = new MatrixRows(columns.keys());
  }

  /**
   * The next row.
   *
   * @throws RejoinException BAD_ARGUMENT with the column and what was seen in it, also for numbers
   *     that XGBoost refuses when all rows are there, or takes and makes another model of
   */
  void add(Row row) {
    MatrixRows matrix = columns.isForEvaluation(row) ? evaluation : training;
    float label = columns.label(row);
    require(Float.isFinite(label), row, columns.label, label, "a label is finite");
    float weight = columns.weight(row);
    require(
        weight >= 0 && weight < Float.POSITIVE_INFINITY,
        row,
        columns.weight,
        weight,
        "a weight is finite and at least 0");
    double[] features = columns.features(row);
    for (double feature : features) {
      if (isInfinite(feature)) {
        refuseInfinite(row);
      }
    }
    matrix.add(columns.keys(row), label, weight, features);
  }

  /** As XGBoost has it: with 4 bytes, where it doesn't mean that there is none. */
  private boolean isInfinite(double feature) {
    return Float.isInfinite((float) feature) && (float) feature != missing;
  }

  private void refuseInfinite(Row row) {
    for (String column : columns.features) {
      for (double feature : RowNumbers.numbers(row, new String[] {column}, true)) {
        String rule =
            "a feature is finite as a FLOAT (up to "
                + Float.MAX_VALUE
                + "), or NaN or NULL for none";
        require(!isInfinite(feature), row, column, feature, rule);
      }
    }
  }

  private void require(boolean holds, Row row, String column, double seen, String rule) {
    if (!holds) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the column '"
              + column
              + "' is "
              + seen
              + " in row "
              + (training.rows() + evaluation.rows())
              + " (from 0) of this rank, "
              + row
              + ": "
              + rule
              + ". Mend the number, or leave the row out, in the query");
    }
  }

  /**
   * Rows from a checkpoint of Flink's.
   *
   * @throws RejoinException BAD_ARGUMENT for those of other columns, or of query groups that may
   *     have been divided
   */
  void restore(RowBlock block, String operator) {
    if (block.keys != columns.keys()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the state of "
              + operator
              + " has rows for another training: of group and orderBy it had "
              + block.keys
              + ", and now there are "
              + columns.keys()
              + ". Restore it with the columns that it was written with");
    }
    if (columns.isGrouped() && block.world != world) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the state of "
              + operator
              + " was written by "
              + block.world
              + " subtasks, and is to be restored by "
              + world
              + ": that would divide query groups among them. Restore it with parallelism "
              + block.world);
    }
    (block.evaluation ? evaluation : training).add(block);
  }

  /** What a checkpoint of Flink's needs. */
  List<RowBlock> blocks() {
    List<RowBlock> all = new ArrayList<>(training.blocks(world, false));
    all.addAll(evaluation.blocks(world, true));
    return all;
  }

  /**
   * Decides about their order, when all are there.
   *
   * @param inOrder whether they come in the same order whenever they are read
   * @return what they are
   * @throws RejoinException TRAINING_FAILED when the rank has none
   */
  RowFingerprint arrange(int rank, boolean inOrder) {
    requireRows(training, rank, "training");
    if (columns.hasEvaluation()) {
      requireRows(evaluation, rank, "evaluation");
    }
    RowFingerprint.Maker fingerprint = new RowFingerprint.Maker();
    for (MatrixRows matrix : List.of(training, evaluation)) {
      matrix.arrange(columns.isGrouped() ? 1 : 0, columns.isOrdered() || !inOrder);
      matrix.addTo(fingerprint);
    }
    return fingerprint.made();
  }

  private static void requireRows(MatrixRows matrix, int rank, String what) {
    if (matrix.rows() == 0) {
      throw new RejoinException(
          RejoinException.Code.TRAINING_FAILED,
          "rank "
              + rank
              + " has no rows for "
              + what
              + ", and every rank needs some: use a lower parallelism, or divide the rows otherwise"
              + " among the subtasks");
    }
  }

  /**
   * The matrices, by the names that XGBoost's own estimator for Spark has for them.
   *
   * @throws RejoinException TRAINING_FAILED where XGBoost can't make them: the rows are in memory,
   *     and another attempt would have the same
   */
  Matrices matrices() {
    Opened opened = new Opened();
    try {
      opened.byName.put("train", training.matrix(missing, columns.isGrouped()));
      if (columns.hasEvaluation()) {
        opened.byName.put("eval", evaluation.matrix(missing, columns.isGrouped()));
      }
      return opened;
    } catch (XGBoostError e) {
      opened.close();
      throw new RejoinException(
          RejoinException.Code.TRAINING_FAILED,
          "XGBoost can't make its matrices of this rank's rows: " + e.getMessage(),
          e);
    } catch (RuntimeException e) {
      opened.close();
      throw e;
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
