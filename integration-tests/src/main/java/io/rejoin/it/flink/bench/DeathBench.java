package io.rejoin.it.flink.bench;

import io.rejoin.flink.Rejoin;
import io.rejoin.it.bench.Figures;
import io.rejoin.it.flink.FixedSplitsSource;
import io.rejoin.it.flink.FlinkCluster;
import io.rejoin.it.flink.FlinkJob;
import io.rejoin.it.flink.FlinkProcess;
import io.rejoin.it.flink.SplitRow;
import io.rejoin.it.flink.SplitTrainer;
import io.rejoin.it.flink.Waiting;
import java.io.IOException;
import java.time.Duration;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * From the SIGKILL of a TaskManager to training going on, with a spare TaskManager and Flink's
 * heartbeat at 500 ms; where the time goes is read in Flink's logs. Once with a spare one that has
 * never run anything, as a user's is, and once with one that has run the same job, so that classes
 * are loaded: there Rejoin's own part counts.
 */
final class DeathBench {
  private static final Duration LIMIT = Duration.ofSeconds(90);
  private static final int WORLD = 3;
  private static final int STRUCK = 1;
  private static final int FEATURES = 10;
  private static final int CHECKPOINTS = 5;
  private static final long NANOS_PER_ROW = 5_000;
  private static final double BAR_WHOLE = 2000;
  private static final double BAR_OURS = 100;
  private static final int OPEN = 5;

  private final boolean warm;
  private final List<Moment> moments = Moment.of(STRUCK, WORLD);
  private final List<List<Double>> millis = new ArrayList<>();

  private DeathBench(boolean warm) {
    this.warm = warm;
    moments.forEach(moment -> millis.add(new ArrayList<>()));
  }

  static void run() throws Exception {
    for (boolean warm : new boolean[] {false, true}) {
      if (FlinkBench.wants(name(warm))) {
        new DeathBench(warm).measure();
      }
    }
  }

  private static String name(boolean warm) {
    return "a death, " + (warm ? "classes loaded" : "a fresh spare TaskManager");
  }

  private void measure() throws Exception {
    for (int i = 0; i < FlinkBench.pairs(); i++) {
      FlinkCluster.Builder builder =
          FlinkCluster.named("bench-flink").taskManagers(WORLD + 1).measured();
      if (warm) {
        builder.jarsInLib();
      }
      try (FlinkCluster cluster = builder.start()) {
        if (warm) {
          train(cluster, WORLD + 1, "before").cancel();
          cluster.awaitTaskManagers(WORLD + 1);
        }
        kill(cluster);
      }
    }
    Figures figures = new Figures("flink", "nothing");
    int last = moments.size() - 1;
    for (int i = 0; i <= last; i++) {
      Double bar = i == last && !warm ? BAR_WHOLE : null;
      figures.print(name(warm) + ": " + moments.get(i).what(), "ms", millis.get(i), bar);
    }
    List<Double> ours = new ArrayList<>();
    for (int i = 0; i < millis.get(0).size(); i++) {
      ours.add(millis.get(last).get(i) - millis.get(OPEN).get(i));
    }
    figures.print(name(warm) + ": Rejoin's own part", "ms", ours, warm ? BAR_OURS : null);
  }

  private void kill(FlinkCluster cluster) throws Exception {
    FlinkJob job = train(cluster, WORLD, "death");
    FlinkProcess victim = cluster.taskManager(job.taskManagerOf("train SplitTrainer", STRUCK));
    LocalTime begin = LocalTime.now();
    victim.signal("KILL");
    Moment last = moments.get(moments.size() - 1);
    Waiting.untilTrue(
        last.what(), LIMIT, () -> last.millisAfter(begin, logged(cluster, last)) != null);
    for (int i = 0; i < moments.size(); i++) {
      Moment moment = moments.get(i);
      Double after = moment.millisAfter(begin, logged(cluster, moment));
      if (after == null) {
        throw new IllegalStateException("no log has `" + moment.line() + "` after " + begin);
      }
      millis.get(i).add(after);
    }
  }

  private static String logged(FlinkCluster cluster, Moment moment) throws IOException {
    if (moment.atJobManager()) {
      return cluster.jobManager().logged();
    }
    StringBuilder all = new StringBuilder();
    for (FlinkProcess process : cluster.taskManagers()) {
      all.append(process.logged());
    }
    return all.toString();
  }

  /** Submits a training, and waits until it has found its pace. */
  private static FlinkJob train(FlinkCluster cluster, int world, String name) throws Exception {
    Map<String, String> settings = new LinkedHashMap<>();
    settings.put("execution.checkpointing.interval", "200 ms");
    settings.put("rejoin.tracker.host", "127.0.0.1");
    StreamExecutionEnvironment environment = cluster.environment(settings);
    environment.setParallelism(world);
    long[] lengths = new long[world];
    Arrays.fill(lengths, Long.MAX_VALUE);
    Rejoin.train(
            environment.fromSource(
                new FixedSplitsSource(lengths, FEATURES).unbounded().pace(NANOS_PER_ROW),
                WatermarkStrategy.noWatermarks(),
                "rows",
                TypeInformation.of(SplitRow.class)),
            new SplitTrainer(FEATURES, world, List.of()))
        .sinkTo(new DiscardingSink<>());
    FlinkJob job = cluster.submit(environment, name);
    job.awaitCheckpoints(CHECKPOINTS, LIMIT);
    return job;
  }
}
