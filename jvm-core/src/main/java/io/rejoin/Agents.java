package io.rejoin;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Supplier;

/**
 * The agents of this JVM, by job and executor, so that they outlive tasks. Those that are over are
 * closed by the watch thread, and when another one is asked for.
 */
public final class Agents {
  /** Also those that are being opened. */
  private static final Map<List<Object>, FutureTask<ProcessAgent>> AGENTS = new HashMap<>();

  private Agents() {}

  /**
   * The agent of this job, executor and kind; started by {@code opener} if there is none, or only
   * one that is over. Others that ask for the same wait for it, and nobody else: it may look into a
   * file system that doesn't answer.
   *
   * @throws RejoinException what {@code opener} throws; CANCELLED when the thread is interrupted
   *     while another one opens it
   */
  public static <A extends ProcessAgent> A of(
      JobId job, String executor, Class<A> kind, Supplier<A> opener) {
    closeThoseThatAreOver();
    List<Object> key = List.of(job, executor, kind);
    FutureTask<ProcessAgent> own = new FutureTask<>(opener::get);
    for (; ; ) {
      FutureTask<ProcessAgent> opened;
      synchronized (AGENTS) {
        opened = AGENTS.computeIfAbsent(key, any -> own);
      }
      if (opened == own) {
        own.run();
      }
      try {
        A agent = kind.cast(opened.get());
        Watch.tend();
        return agent;
      } catch (ExecutionException failed) {
        synchronized (AGENTS) {
          AGENTS.remove(key, opened);
        }
        // What another's opener has failed with says nothing of the own one.
        if (opened == own) {
          throw thrown(failed.getCause());
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new RejoinException(
            RejoinException.Code.CANCELLED,
            "interrupted while the agent of executor " + executor + " was being opened",
            e);
      }
    }
  }

  /** An opener declares no checked exception. */
  private static RuntimeException thrown(Throwable cause) {
    if (cause instanceof Error) {
      throw (Error) cause;
    }
    return (RuntimeException) cause;
  }

  /** The agent, or null while it is being opened, or where it couldn't be. */
  private static ProcessAgent agent(FutureTask<ProcessAgent> opened) {
    try {
      return opened.isDone() ? opened.get() : null;
    } catch (ExecutionException | InterruptedException failed) {
      // Whoever has opened it takes it out.
      return null;
    }
  }

  /** Closes agents whose job is over; returns how many are left. */
  static int closeThoseThatAreOver() {
    List<ProcessAgent> over = new ArrayList<>();
    int left;
    synchronized (AGENTS) {
      AGENTS
          .values()
          .removeIf(
              opened -> {
                ProcessAgent agent = agent(opened);
                return agent != null && agent.over() && over.add(agent);
              });
      left = AGENTS.size();
    }
    over.forEach(ProcessAgent::close);
    return left;
  }
}
