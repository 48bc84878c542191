package io.rejoin.it.bench;

import io.rejoin.it.Digest;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import ml.dmlc.xgboost4j.java.Booster;
import ml.dmlc.xgboost4j.java.Communicator;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoost;

/**
 * So many ranks of a training over XGBoost's own collective, each on a thread of its own: the same
 * calls as in Rejoin's loop, without Rejoin.
 */
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

  /**
   * One rank's training.
   *
   * @param connectNanos in the communicator's start
   * @param clock its rounds
   * @param digest of the model
   */
  record Result(long connectNanos, RoundClock clock, String digest) implements Serializable {}

  @Override
  public Serializable run() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(ranks);
    try {
      List<Future<Result>> running = new ArrayList<>();
      for (int i = 0; i < ranks; i++) {
        // Padded, because the tracker sorts ranks by this text.
        String task = String.format("%d-%03d", ProcessHandle.current().pid(), i);
        running.add(threads.submit((Callable<Result>) () -> train(task)));
      }
      ArrayList<Result> results = new ArrayList<>();
      for (Future<Result> one : running) {
        results.add(one.get());
      }
      return results;
    } catch (ExecutionException failed) {
      throw new IllegalStateException("a rank of the stock training failed", failed.getCause());
    } finally {
      threads.shutdown();
    }
  }

  private Result train(String task) throws Exception {
    Map<String, Object> arguments = new LinkedHashMap<>(tracker);
    arguments.put("dmlc_task_id", task);
    long before = System.nanoTime();
    Communicator.init(arguments);
    long connected = System.nanoTime();
    try {
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
      return new Result(connected - before, clock, digest);
    } finally {
      Communicator.shutdown();
    }
  }
}
