package io.rejoin.it.bench;

import io.rejoin.it.Digest;
import java.util.LinkedHashMap;
import java.util.Map;
import ml.dmlc.xgboost4j.java.Booster;
import ml.dmlc.xgboost4j.java.Communicator;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoost;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * The same calls as in Rejoin's loop, without its checkpoints: on the calling thread, whose
 * communicator must be there.
 */
final class BareRounds {
  /** What is done between rounds. */
  interface Between {
    /** So many rounds are done; 0 before the first. */
    void rounds(int done);
  }

  /** What came of it. */
  record Trained(RoundClock clock, byte[] model) {
    String digest() {
      return Digest.of(model);
    }
  }

  private BareRounds() {}

  static Trained train(Shape shape, Between between) throws XGBoostError {
    DMatrix matrix = shape.matrix(shape.part(Communicator.getRank()));
    Map<String, Object> parameters = shape.parameters();
    // As in Rejoin's loop: the sketch belongs to the start, not to the first round.
    Map<String, Object> warmUp = new LinkedHashMap<>(parameters);
    warmUp.put("max_depth", "1");
    XGBoost.train(matrix, warmUp, 1, new LinkedHashMap<>(), null, null).dispose();
    LinkedHashMap<String, DMatrix> watches = new LinkedHashMap<>();
    watches.put("train", matrix);
    Booster booster = XGBoost.train(matrix, parameters, 0, watches, null, null, null, 0);
    DMatrix[] matrices = {matrix};
    String[] names = {"train"};
    float[] scores = new float[1];
    float best = Float.MAX_VALUE;
    RoundClock clock = new RoundClock(shape.rounds());
    between.rounds(0);
    clock.accept(0);
    for (int round = 0; round < shape.rounds(); round++) {
      booster.update(matrix, round);
      booster.evalSet(matrices, names, round, scores);
      if (scores[0] < best) {
        best = scores[0];
        booster.setAttr("best_iteration", String.valueOf(round));
        booster.setAttr("best_score", String.valueOf(best));
      }
      clock.accept(round + 1);
      between.rounds(round + 1);
    }
    byte[] model = booster.toByteArray("ubj");
    booster.dispose();
    matrix.dispose();
    return new Trained(clock, model);
  }
}
