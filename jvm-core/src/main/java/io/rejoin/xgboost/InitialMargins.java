package io.rejoin.xgboost;

import java.util.LinkedHashMap;
import java.util.Map;
import ml.dmlc.xgboost4j.java.Booster;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoost;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * Makes a loaded Booster go on exactly as one that was never replaced under a user's objective.
 *
 * <p>With a user's objective XGBoost predicts before it has ever trained, and remembers these
 * margins of its matrices for good, each tree added to them. They start from another value than the
 * base score that it saves with the model, so a loaded Booster (seen with 3.4.0, one worker, no
 * parameter {@code base_score}) would give the objective other margins and grow other trees. So the
 * margins of a Booster that has never trained are lent to the matrices as their base margins,
 * before the loaded one predicts for the first time. Where the model has several outputs, a base
 * score is given, or the user gives base margins, both start from the same, and nothing has to be
 * lent.
 */
final class InitialMargins {
  private final Map<DMatrix, float[]> margins = new LinkedHashMap<>();

  /**
   * Predicts with a Booster that has never trained. Every rank does this at its start, restarted or
   * not, because it talks to the others.
   */
  InitialMargins(TrainingSpec spec, DMatrix[] matrices, Map<String, DMatrix> byName)
      throws XGBoostError {
    Booster fresh =
        XGBoost.train(
            matrices[0], spec.parameters(), 0, new LinkedHashMap<>(byName), null, null, null, 0);
    try {
      for (DMatrix matrix : matrices) {
        float[][] rows = fresh.predict(matrix, true);
        if (rows.length > 0 && rows[0].length == 1) {
          margins.put(matrix, column(rows));
        }
      }
    } finally {
      fresh.dispose();
    }
  }

  /** Lets a Booster that was just loaded fill what it remembers of its matrices. */
  void lendTo(Booster loaded) throws XGBoostError {
    for (Map.Entry<DMatrix, float[]> entry : margins.entrySet()) {
      entry.getKey().setBaseMargin(entry.getValue());
      loaded.predict(entry.getKey(), true);
    }
  }

  private static float[] column(float[][] rows) {
    float[] column = new float[rows.length];
    for (int i = 0; i < rows.length; i++) {
      column[i] = rows[i][0];
    }
    return column;
  }
}
