package io.rejoin.it.bench;

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
import ml.dmlc.xgboost4j.java.Communicator;

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
      BareRounds.Trained trained = BareRounds.train(shape, rounds -> {});
      return new Result(connected - before, trained.clock(), trained.digest());
    } finally {
      Communicator.shutdown();
    }
  }
}
