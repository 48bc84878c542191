package io.rejoin.flink;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Supplier;

/**
 * A thread for one call of native code. Such a call leaves variables in its thread, and with them
 * the library stays mapped until the thread ends. Flink's own threads outlive the jobs, each of
 * which may bring a library of its own.
 */
final class PassingThread {
  private PassingThread() {}

  /** Calls it on such a thread, and waits for it; what it throws is thrown here. */
  static <T> T call(String name, Supplier<T> work) {
    FutureTask<T> task = new FutureTask<>(work::get);
    Thread thread = new Thread(task, name);
    thread.setDaemon(true);
    thread.start();
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return task.get();
        } catch (InterruptedException e) {
          // The call ends soon, and whoever interrupts means what comes after it.
          interrupted = true;
        } catch (ExecutionException e) {
          throw unchecked(e.getCause());
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static RuntimeException unchecked(Throwable thrown) {
    if (thrown instanceof Error) {
      throw (Error) thrown;
    }
    // A supplier throws nothing else.
    return (RuntimeException) thrown;
  }
}
