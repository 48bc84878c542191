package io.rejoin.it.flink.bench;

import io.rejoin.flink.Rejoin;
import io.rejoin.it.bench.Figures;
import io.rejoin.it.flink.FixedSplitsSource;
import io.rejoin.it.flink.FlinkCluster;
import io.rejoin.it.flink.FlinkJob;
import io.rejoin.it.flink.SplitRow;
import io.rejoin.it.flink.SplitTrainer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * How long Flink's checkpoints take while one rank's input is idle for seconds again and again, and
 * those of the others have more than the batches with it take. All settings of Rejoin are the usual
 * ones.
 */
final class CheckpointBench {
  private static final String CONFIG = "Flink's checkpoints while a peer is idle for 4 s at a time";
  private static final Duration LIMIT = Duration.ofMinutes(5);
  private static final int MOST_RUNS = 3;
  private static final int CHECKPOINTS = 100;
  // Before them Flink and the ranks find their pace.
  private static final int BEFORE = 10;
  private static final int FEATURES = 10;
  private static final int ROWS_BETWEEN = 2000;
  private static final int PAUSES = 100;
  private static final long IDLE_MILLIS = 4000;
  private static final long NANOS_PER_ROW = 20_000;
  private static final double BAR_95 = 300;
  private static final double BAR_LONGEST = 1000;

  private CheckpointBench() {}

  static void run(int world) throws Exception {
    if (!FlinkBench.wants(CONFIG)) {
      return;
    }
    List<Double> most = new ArrayList<>();
    double longest = 0;
    for (int i = 0; i < Math.min(MOST_RUNS, FlinkBench.pairs()); i++) {
      List<Long> millis = new ArrayList<>(once(world));
      Collections.sort(millis);
      most.add((double) millis.get(CHECKPOINTS * 95 / 100 - 1));
      longest = Math.max(longest, millis.get(CHECKPOINTS - 1));
    }
    Figures figures = new Figures("flink", "nothing");
    figures.print(CONFIG + ", 95 of 100", "ms", most, BAR_95);
    figures.print(CONFIG + ", the longest", "ms", List.of(longest), BAR_LONGEST);
  }

  private static List<Long> once(int world) throws Exception {
    try (FlinkCluster cluster =
        FlinkCluster.named("bench-flink")
            .taskManagers(world)
            .measured()
            .setting("web.checkpoints.history", Integer.toString(2 * CHECKPOINTS))
            .start()) {
      StreamExecutionEnvironment environment =
          cluster.environment(
              Map.of(
                  "execution.checkpointing.interval",
                  "200 ms",
                  "rejoin.tracker.host",
                  "127.0.0.1"));
      environment.setParallelism(world);
      Rejoin.train(
              environment.fromSource(
                  source(world),
                  WatermarkStrategy.noWatermarks(),
                  "rows",
                  TypeInformation.of(SplitRow.class)),
              new SplitTrainer(FEATURES, world, List.of()))
          .sinkTo(new DiscardingSink<>());
      FlinkJob job = cluster.submit(environment, "idle");
      // One that Flink wants before all tasks run isn't made.
      job.awaitCheckpoints(BEFORE, LIMIT);
      int failed = job.checkpoints().failed();
      job.awaitCheckpoints(BEFORE + CHECKPOINTS, LIMIT);
      List<Long> millis = job.checkpointMillis();
      if (millis.size() < CHECKPOINTS || job.checkpoints().failed() > failed) {
        throw new IllegalStateException("checkpoints failed: " + job.checkpoints());
      }
      return millis.subList(0, CHECKPOINTS);
    }
  }

  private static FixedSplitsSource source(int world) {
    long[] lengths = new long[world];
    Arrays.fill(lengths, Long.MAX_VALUE);
    FixedSplitsSource source =
        new FixedSplitsSource(lengths, FEATURES).unbounded().pace(NANOS_PER_ROW);
    for (int i = 1; i <= PAUSES; i++) {
      source.idle(0, (long) i * ROWS_BETWEEN, IDLE_MILLIS);
    }
    return source;
  }
}
