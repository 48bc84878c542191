package io.rejoin.it.flink.bench;

import io.rejoin.it.flink.FlinkCluster;
import io.rejoin.it.flink.FlinkJob;
import io.rejoin.it.flink.Waiting;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** One training on a cluster, from its submission to its end. */
final class TimedRun {
  private static final Duration LIMIT = Duration.ofMinutes(10);
  private static final int LOOKS_PER_QUESTION = 50;

  private final FlinkCluster cluster;
  private final String name;
  private final int world;
  private final int batch;
  private final int warmup;

  /** In batches of so many rows, of which so many warm up. */
  TimedRun(FlinkCluster cluster, String name, int world, int batch, int warmup) {
    this.cluster = cluster;
    this.name = name;
    this.world = world;
    this.batch = batch;
    this.warmup = warmup;
  }

  /** The times that those who have a clock took for the steps that count. */
  List<StepClock.Time> times(Training training) throws Exception {
    Path folder = Files.createTempDirectory(cluster.work().folder("times"), name);
    StepClock clock = new StepClock(folder, warmup, FlinkBench.steps());
    StreamExecutionEnvironment environment =
        cluster.environment(
            Map.of(
                "rejoin.batch.rows", Integer.toString(batch), "rejoin.tracker.host", "127.0.0.1"));
    environment.setParallelism(world);
    long rows = (long) clock.steps() * batch;
    training.build(environment, new PoolSource(world, rows, Training.FEATURES), clock);
    FlinkJob job = cluster.submit(environment, name);
    AtomicInteger looks = new AtomicInteger();
    List<StepClock.Time> times =
        Waiting.until(
            "all clocks of " + name + " have stopped",
            LIMIT,
            () -> {
              List<StepClock.Time> stopped = clock.times();
              // The JobManager has the same cores as what is measured, so it is seldom asked.
              if (looks.incrementAndGet() % LOOKS_PER_QUESTION == 0
                  && job.state().equals("FAILED")) {
                throw new AssertionError(name + " failed: " + job.failures());
              }
              return stopped.size() == world ? stopped : null;
            });
    if (training.iterates()) {
      // An iteration has no end of its own.
      job.cancel();
    }
    job.awaitEnd(LIMIT);
    cluster.awaitTaskManagers(cluster.taskManagers().size());
    return times;
  }
}
