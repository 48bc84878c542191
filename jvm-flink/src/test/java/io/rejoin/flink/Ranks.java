package io.rejoin.flink;

import io.rejoin.Agent;
import io.rejoin.AgentSettings;
import io.rejoin.Communicator;
import io.rejoin.JobId;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;

/** The ranks of a job, as threads of this JVM with a real tracker, agent and communicators. */
public final class Ranks {
  private static final Communicator.Limits LIMITS = new Communicator.Limits(30_000, 30_000, 30_000);

  private Ranks() {}

  /** What a rank does. */
  @FunctionalInterface
  public interface Work<R> {
    /** On the rank's own thread. */
    R run(Communicator ranks) throws Exception;
  }

  /** Every rank's work on a thread of its own, all in one agent; results in rank order. */
  public static <R> List<R> all(int world, Work<R> work) throws Exception {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    ExecutorService threads = Executors.newFixedThreadPool(world);
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(world, "127.0.0.1"));
        Agent agent =
            Agent.open(
                job,
                secret,
                new AgentSettings(tracker.address()).place("here", "127.0.0.1", "localhost"))) {
      List<Future<R>> results = new ArrayList<>();
      for (int rank = 0; rank < world; rank++) {
        int own = rank;
        results.add(threads.submit(() -> run(agent, own, work)));
      }
      List<R> all = new ArrayList<>();
      for (Future<R> result : results) {
        all.add(result.get());
      }
      return all;
    } catch (ExecutionException e) {
      throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
    } finally {
      threads.shutdownNow();
    }
  }

  private static <R> R run(Agent agent, int rank, Work<R> work) throws Exception {
    try (Communicator ranks = agent.join(rank, 0, 0, "a test", LIMITS).orElseThrow()) {
      ranks.load();
      try {
        return work.run(ranks);
      } catch (RejoinException e) {
        // The others don't wait for this rank's next try, which there is none of.
        ranks.abandon(e.code(), e.text());
        throw e;
      }
    }
  }

  /**
   * Trains as Rejoin does: a checkpoint ends each version. Every second rank goes on from the
   * model's bytes instead of the model, so that the checkpoints, which have to be equal at all
   * ranks, show whether the bytes are all that training depends on.
   *
   * @param batches each version's, of each rank
   * @return the model of each version
   */
  public static <T, M> List<M> train(TrainerFunction<T, M> trainer, List<List<List<T>>> batches)
      throws Exception {
    int world = batches.get(0).size();
    return all(world, ranks -> train(trainer, batches, ranks)).get(0);
  }

  private static <T, M> List<M> train(
      TrainerFunction<T, M> trainer, List<List<List<T>>> batches, Communicator ranks)
      throws Exception {
    List<M> versions = new ArrayList<>();
    M model = trainer.open(context(ranks));
    byte[] bytes = {};
    for (List<List<T>> batch : batches) {
      model = trainer.onBatch(batch.get(ranks.rank()), ranks, model);
      bytes = trainer.write(model);
      ranks.checkpoint(bytes);
      versions.add(trainer.read(bytes));
      if (ranks.rank() % 2 == 1) {
        model = trainer.read(bytes);
      }
    }
    ranks.finish(bytes);
    trainer.close();
    return versions;
  }

  private static TrainerContext context(Communicator ranks) {
    return new TrainerContext() {
      @Override
      public int rank() {
        return ranks.rank();
      }

      @Override
      public int world() {
        return ranks.world();
      }

      @Override
      public Map<String, String> parameters() {
        return Map.of();
      }

      @Override
      public MetricGroup metrics() {
        return new UnregisteredMetricsGroup();
      }
    };
  }
}
