package io.rejoin.it.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntFunction;

/** Ranks of one process, each on a thread of its own. */
final class Ranks {
  private Ranks() {}

  /** Runs so many to their ends; what they return, in their order. */
  static <T> ArrayList<T> run(int count, IntFunction<Callable<T>> rank) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(count);
    try {
      List<Future<T>> running = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        running.add(threads.submit(rank.apply(i)));
      }
      ArrayList<T> results = new ArrayList<>();
      for (Future<T> one : running) {
        results.add(one.get());
      }
      return results;
    } finally {
      threads.shutdown();
    }
  }
}
