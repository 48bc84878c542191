package io.rejoin.it.flink.bench;

import io.rejoin.Communicator;
import io.rejoin.JobId;
import io.rejoin.Reduction;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.it.WorkDirectory;
import io.rejoin.it.bench.Figures;
import io.rejoin.it.bench.Host;
import io.rejoin.it.bench.Pairs;
import io.rejoin.it.bench.WorkerProcess;
import io.rejoin.it.flink.FlinkCluster;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * An allreduce of 1 MB in each batch of a training in Flink, which is nearly all that it does,
 * beside the bare engine: as many processes without Flink, which make the same calls and end a
 * version after each.
 */
final class AllreduceBench {
  private static final double BAR = 1.2;
  private static final int FLOATS = 262_144;
  private static final long LIMIT_SECONDS = 600;
  // A call takes longer than a batch of rows.
  private static final int CALLS_PER_WARMUP = 2;

  private final FlinkCluster cluster;
  private final List<WorkerProcess> workers;

  private AllreduceBench(FlinkCluster cluster, List<WorkerProcess> workers) {
    this.cluster = cluster;
    this.workers = workers;
  }

  static void run(int world) throws Exception {
    String config = "an allreduce of 1 MB per batch, " + world + " ranks";
    if (!FlinkBench.wants(config)) {
      return;
    }
    WorkDirectory work = WorkDirectory.fresh("bench-flink-bare");
    List<WorkerProcess> workers = new ArrayList<>();
    try (FlinkCluster cluster =
        FlinkCluster.named("bench-flink").taskManagers(world).measured().start()) {
      for (int i = 0; i < world; i++) {
        workers.add(WorkerProcess.start("bare-" + i, Host.HERE, Host.HERE, work, "512m", Map.of()));
      }
      AllreduceBench bench = new AllreduceBench(cluster, workers);
      List<Pairs.Pair<Double>> pairs =
          Pairs.of(FlinkBench.pairs(), () -> bench.ours(world), () -> bench.bare(world));
      new Figures("flink", "bare engine").print(config, "us", pairs, micros -> micros, BAR);
    } finally {
      workers.forEach(WorkerProcess::close);
    }
  }

  private double ours(int world) throws Exception {
    List<StepClock.Time> times =
        new TimedRun(cluster, "ours", world, AllreduceTraining.BATCH, warmup())
            .times(new AllreduceTraining());
    return perStep(times.stream().mapToLong(StepClock.Time::nanos).max().orElseThrow());
  }

  private double bare(int world) {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    try (Tracker tracker =
        Tracker.open(job, secret, new Tracker.Settings(world, Host.HERE.address()))) {
      List<CompletableFuture<Serializable>> answers = new ArrayList<>();
      for (int rank = 0; rank < world; rank++) {
        answers.add(
            workers
                .get(rank)
                .ask(
                    new BareAllreduce(
                        job, secret, tracker.address(), rank, warmup(), FlinkBench.steps())));
      }
      long most = 0;
      for (CompletableFuture<Serializable> answer : answers) {
        most = Math.max(most, (Long) WorkerProcess.await(answer, LIMIT_SECONDS));
      }
      return perStep(most);
    }
  }

  private static int warmup() {
    return FlinkBench.warmup() / CALLS_PER_WARMUP;
  }

  /** In microseconds. */
  private static double perStep(long nanos) {
    return nanos / 1e3 / FlinkBench.steps();
  }

  /** What both sides call. */
  static void allreduce(Communicator ranks, float[] numbers) {
    ranks.allreduce(numbers, Reduction.SUM);
  }

  /** 1 MB of zeros, which stay zeros. */
  static float[] numbers() {
    return new float[FLOATS];
  }
}
