package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What people see of a job in which one rank fails once. */
class MetricsTest {
  private static final int RANKS = 3;
  private static final int ROWS = 9_000;
  private static final int BATCH = 100;
  private static final int VERSIONS = ROWS / RANKS / BATCH;

  private static final Pattern HOLDS_A_CHECKPOINT =
      Pattern.compile("\"Usage\".*\"checkpoint_bytes\":[1-9]");

  /** Counts batches; rank 1 fails once in the middle, after 50 ms. */
  private static final class FailsOnce implements TrainerFunction<Long, Long> {
    private static final long serialVersionUID = 1L;
    private static boolean failed;

    private int rank;

    @Override
    public Long open(TrainerContext context) {
      rank = context.rank();
      return 0L;
    }

    @Override
    public Long onBatch(List<Long> batch, Communicator ranks, Long model) throws Exception {
      if (rank == 1 && model == VERSIONS / 2 && !failed) {
        failed = true;
        throw new IllegalStateException("a test lets the trainer fail");
      }
      long[] one = {1};
      ranks.allreduce(one, Reduction.MAX);
      return model + one[0];
    }

    @Override
    public byte[] write(Long model) {
      return ByteBuffer.allocate(Long.BYTES).putLong(model).array();
    }

    @Override
    public Long read(byte[] bytes) {
      return ByteBuffer.wrap(bytes).getLong();
    }
  }

  @Test
  @Timeout(120)
  void a_recovery_is_in_the_metrics_and_in_the_event_log(@TempDir Path events) throws Exception {
    Configuration settings = LocalJob.settings(BATCH, 1);
    SeenMetrics.settings().forEach(settings::setString);
    settings.setString("rejoin.events", events.toString());
    StreamExecutionEnvironment env =
        StreamExecutionEnvironment.createLocalEnvironment(RANKS, settings);
    Rejoin.train(
            Rejoin.source(
                env,
                new NumberSequenceSource(1, ROWS),
                WatermarkStrategy.noWatermarks(),
                "numbers"),
            new FailsOnce())
        .sinkTo(new DiscardingSink<>());
    env.execute();

    assertEquals(List.of(1L), SeenMetrics.of("recoveries"));
    long lost = SeenMetrics.of("lostMillis").get(0);
    assertTrue(lost > 0 && lost < 60_000, lost + " ms");
    for (String held : List.of("logBytes", "spilledBytes", "checkpointBytes")) {
      assertEquals(1, SeenMetrics.of(held).size(), held);
    }
    assertEquals(List.of((long) VERSIONS), ofRanks("version"));
    assertEquals(List.of((long) ROWS), ofRanks("rows"));
    // The attempt that failed is seen beside the one that came after it.
    assertEquals(List.of(0L, 1L), ofRanks("incarnation"));
    assertTrue(SeenMetrics.of("batches").contains((long) VERSIONS));

    List<String> log = complete(only(events));
    assertTrue(
        log.get(0).contains("\"Began\":{\"world\":3,\"command\":[\"train FailsOnce, gang 1\"]"));
    assertTrue(log.get(log.size() - 1).contains("\"Over\":{\"status\":0"), log.get(log.size() - 1));
    // Not by the metric: when the job is over what was held may have been given up already.
    assertTrue(
        log.stream().anyMatch(line -> HOLDS_A_CHECKPOINT.matcher(line).find()),
        "each process holds the model");
    for (String event : List.of("RankLost\":{\"rank\":1", "Restored\":{\"rank\":1", "\"Spent\"")) {
      assertTrue(log.stream().anyMatch(line -> line.contains(event)), event);
    }
  }

  private static List<Long> ofRanks(String metric) {
    return SeenMetrics.of(metric).stream().distinct().sorted().collect(Collectors.toList());
  }

  /** The job is over for its user before the coordinator has written the last line. */
  private static List<String> complete(Path file) throws Exception {
    List<String> log = Files.readAllLines(file);
    while (log.isEmpty() || !log.get(log.size() - 1).contains("\"Over\"")) {
      Thread.sleep(10); // Between two looks; the test's time limit decides, not this.
      log = Files.readAllLines(file);
    }
    return log;
  }

  private static Path only(Path folder) throws Exception {
    try (Stream<Path> files = Files.list(folder)) {
      List<Path> all = files.collect(Collectors.toList());
      assertEquals(1, all.size(), all.toString());
      return all.get(0);
    }
  }
}
