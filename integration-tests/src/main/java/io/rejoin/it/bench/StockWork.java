package io.rejoin.it.bench;

import io.rejoin.it.Digest;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import ml.dmlc.xgboost4j.java.Booster;
import ml.dmlc.xgboost4j.java.Communicator;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoost;
import ml.dmlc.xgboost4j.java.XGBoostError;

/** So many ranks of a training over XGBoost's own collective: the same calls as in our loop. */
final class StockWork implements Work {
  private static final long serialVersionUID = 1L;

  private final LinkedHashMap<String, Object> tracker;
  private final Shape shape;
  private final int ranks;

  /** {@code tracker}: what its {@code getWorkerArgs} gives. */
  StockWork(Map<String, Object> tracker, Shape shape, int ranks) {
    this.tracker = new LinkedHashMap<>(tracker);
    this.shape = shape;
    this.ranks = ranks;
  }

  /** One rank's training: its rounds, and its model. */
  record Result(RoundClock clock, String digest) implements Serializable {}

  @Override
  public Serializable run() throws Exception {
    // Padded, because the tracker sorts ranks by this text.
    return Ranks.run(
        ranks,
        place -> () -> train(String.format("%d-%03d", ProcessHandle.current().pid(), place)));
  }

  private Result train(String task) throws XGBoostError {
    Map<String, Object> arguments = new LinkedHashMap<>(tracker);
    arguments.put("dmlc_task_id", task);
    Communicator.init(arguments);
    try {
      return train();
    } finally {
      Communicator.shutdown();
    }
  }

  private Result train() throws XGBoostError {
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
    }
    String digest = Digest.of(booster.toByteArray("ubj"));
    booster.dispose();
    matrix.dispose();
    return new Result(clock, digest);
  }
}
