package io.rejoin.it.bench;

import io.rejoin.xgboost.CheckpointRhythm;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostVersion;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * What is trained.
 *
 * @param rows over all ranks
 * @param columns features of a row
 * @param depth of a tree
 * @param world ranks
 * @param rounds trees
 */
record Shape(int rows, int columns, int depth, int world, int rounds) implements Serializable {
  static final int DEPTH = 6;

  /** What an agent's logs may take by default, {@code spark.rejoin.log.memory}. */
  static final long LOG_BYTES = 256L << 20;

  /** With trees of the usual depth. */
  Shape(int rows, int columns, int world, int rounds) {
    this(rows, columns, DEPTH, world, rounds);
  }

  /** XGBoost's parameters. */
  Map<String, Object> parameters() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("objective", "binary:logistic");
    map.put("max_depth", depth);
    map.put("eta", 0.2);
    map.put("nthread", 1);
    map.put("verbosity", 1);
    map.put("seed_per_iteration", "true");
    return map;
  }

  /** The same for Rejoin, as the estimator has it; so many ranks share the memory for logs. */
  TrainingSpec spec(int ranksOfAnAgent) {
    long inputBytes = (long) rows / world * columns * Float.BYTES;
    return new TrainingSpec(
        world,
        rounds,
        parameters(),
        CheckpointRhythm.of(XgboostVersion.loaded(), 0, inputBytes)
            .withLogs(LOG_BYTES, ranksOfAnAgent));
  }

  /** A rank's matrix; the communicator must be there. */
  DMatrix matrix(SyntheticRows part) throws XGBoostError {
    DMatrix matrix = new DMatrix(part.features(), part.rows(), part.columns(), Float.NaN);
    matrix.setLabel(part.labels());
    return matrix;
  }

  /** Rows of one rank, the same in every process. */
  SyntheticRows part(int rank) {
    return SyntheticRows.of(rows, columns, rank, world);
  }

  @Override
  public String toString() {
    String deep = depth == DEPTH ? "" : ", depth " + depth;
    return rows / 1000 + "k x " + columns + deep + ", " + world + " ranks";
  }
}
