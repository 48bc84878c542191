package io.rejoin.it.flink.bench;

import io.rejoin.it.bench.Figures;
import io.rejoin.it.bench.Pairs;
import io.rejoin.it.flink.FlinkCluster;
import java.util.List;

/**
 * How fast rows are trained on, ours and another way in turn on the same warm TaskManagers, one for
 * each rank. Inside the job: its deployment isn't in it, nor the time until its code is compiled.
 * The slowest rank counts.
 */
final class SpeedBench {
  private final String peer;
  private final Training theirs;
  private final Double bar;

  /** Beside another way, with the most that our time may be of its; null for no bar. */
  SpeedBench(String peer, Training theirs, Double bar) {
    this.peer = peer;
    this.theirs = theirs;
    this.bar = bar;
  }

  void run(int world) throws Exception {
    String config = "online logistic regression, " + world + " ranks, " + peer + ", a row";
    if (!FlinkBench.wants(config)) {
      return;
    }
    Training ours = new OurTraining();
    List<Pairs.Pair<List<StepClock.Time>>> pairs;
    try (FlinkCluster cluster =
        FlinkCluster.named("bench-flink").taskManagers(world).measured().start()) {
      pairs =
          Pairs.of(
              FlinkBench.pairs(),
              () -> run(cluster, "ours", world).times(ours),
              () -> run(cluster, "theirs", world).times(theirs));
    }
    Figures figures = new Figures("flink", peer);
    double rows = (double) FlinkBench.steps() * Training.BATCH * world;
    figures.print(config, "ns", pairs, times -> nanos(times) / rows, bar);
    figures.print(config + ", processors", "ns", pairs, times -> cpuNanos(times) / rows, null);
  }

  private static TimedRun run(FlinkCluster cluster, String name, int world) {
    return new TimedRun(cluster, name, world, Training.BATCH, FlinkBench.warmup());
  }

  /** The slowest rank's. */
  private static double nanos(List<StepClock.Time> times) {
    return times.stream().mapToDouble(StepClock.Time::nanos).max().orElseThrow();
  }

  /** Of all ranks together. */
  private static double cpuNanos(List<StepClock.Time> times) {
    return times.stream().mapToDouble(StepClock.Time::cpuNanos).sum();
  }
}
