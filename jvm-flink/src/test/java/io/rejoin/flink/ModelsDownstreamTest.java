package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What passes the trainer, and what comes out of it, in one process. */
class ModelsDownstreamTest {
  /** A count of batches; ranks that are told to fail once when they have a certain version. */
  private static final class Counting implements TrainerFunction<Long, Long> {
    private static final long serialVersionUID = 1L;
    private static final Set<Integer> FAILED = ConcurrentHashMap.newKeySet();

    private final Map<Integer, Long> failures;
    private int rank;

    Counting(Map<Integer, Long> failures) {
      this.failures = failures;
    }

    @Override
    public Long open(TrainerContext context) {
      rank = context.rank();
      return 0L;
    }

    @Override
    public Long onBatch(List<Long> batch, Communicator ranks, Long model) {
      if (model.equals(failures.get(rank)) && FAILED.add(rank)) {
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

  private static Configuration settings() {
    Configuration settings = LocalJob.settings(100, 2);
    settings.setString("rejoin.emit.versions", "1");
    return settings;
  }

  /** All models that came, with the attempt in which they did. */
  private static final class Came extends RichMapFunction<TrainedModel, TrainedModel> {
    private static final long serialVersionUID = 1L;
    private static final List<Came> ALL = Collections.synchronizedList(new ArrayList<>());

    private int attempt;
    private transient TrainedModel model;

    @Override
    public TrainedModel map(TrainedModel next) {
      Came came = new Came();
      came.attempt = getRuntimeContext().getTaskInfo().getAttemptNumber();
      came.model = next;
      ALL.add(came);
      return next;
    }
  }

  @Test
  @Timeout(120)
  void versions_grow_within_an_attempt_and_come_again_with_equal_bytes_after_a_recovery()
      throws Exception {
    StreamExecutionEnvironment env =
        StreamExecutionEnvironment.createLocalEnvironment(3, settings());
    Rejoin.train(
            Rejoin.source(
                env,
                new NumberSequenceSource(1, 12_000),
                WatermarkStrategy.noWatermarks(),
                "numbers"),
            new Counting(Map.of(2, 10L, 0, 30L)))
        .map(new Came())
        .sinkTo(new DiscardingSink<>());
    env.execute();

    assertEquals(Set.of(0, 2), Counting.FAILED, "both have failed");
    Map<Integer, Integer> newest = new HashMap<>();
    Map<Integer, byte[]> bytes = new HashMap<>();
    for (Came came : Came.ALL) {
      int version = came.model.getVersion();
      Integer before = newest.put(came.attempt, version);
      boolean isEnd = came.model.isLast() && before != null && before == version;
      assertTrue(before == null || version > before || isEnd, before + ", then " + version);
      byte[] first = bytes.putIfAbsent(version, came.model.getBytes());
      if (first != null) {
        assertArrayEquals(first, came.model.getBytes(), "version " + version);
      }
    }
    assertEquals(Map.of(0, 30, 1, 40), newest, "rank 0's two attempts, and where they ended");
  }

  /** Watermarks and latency markers that have passed the trainer. */
  private static final class Passed extends AbstractStreamOperator<TrainedModel>
      implements OneInputStreamOperator<TrainedModel, TrainedModel> {
    private static final long serialVersionUID = 1L;
    private static final List<Long> WATERMARKS = Collections.synchronizedList(new ArrayList<>());
    private static final CountDownLatch MARKER = new CountDownLatch(1);
    private static final CountDownLatch TENTH = new CountDownLatch(1);

    @Override
    public void processElement(StreamRecord<TrainedModel> model) {
      output.collect(model);
    }

    @Override
    public void processWatermark(org.apache.flink.streaming.api.watermark.Watermark mark)
        throws Exception {
      super.processWatermark(mark);
      WATERMARKS.add(mark.getTimestamp());
      if (mark.getTimestamp() == 10) {
        TENTH.countDown();
      }
    }

    @Override
    public void processLatencyMarker(LatencyMarker marker) throws Exception {
      super.processLatencyMarker(marker);
      MARKER.countDown();
    }
  }

  /** A watermark after each row, of the row's own time. */
  private static final class EachRow implements WatermarkGenerator<Long> {
    @Override
    public void onEvent(Long row, long timestamp, WatermarkOutput output) {
      output.emitWatermark(new Watermark(timestamp));
    }

    @Override
    public void onPeriodicEmit(WatermarkOutput output) {
      // Each row has had its own.
    }
  }

  /** Rows without end, whose times grow ten times. */
  private static DataStream<Long> rows(StreamExecutionEnvironment env, long first) {
    WatermarkStrategy<Long> eachRow =
        WatermarkStrategy.<Long>forGenerator(context -> new EachRow())
            .withTimestampAssigner((row, before) -> Math.min(row, first + 9));
    return env.fromSource(
            new NumberSequenceSource(first, Long.MAX_VALUE - 1), eachRow, "from " + first)
        .map(
            row -> {
              // Flink's threads shall have time for what else there is.
              Thread.sleep(1);
              return row;
            })
        .returns(Types.LONG);
  }

  @Test
  @Timeout(120)
  void the_lowest_watermark_of_all_inputs_and_latency_markers_pass() throws Exception {
    Configuration settings = settings();
    settings.setString("metrics.latency.interval", "5");
    // A restarted rank would have the rows of two inputs in another order.
    settings.setString("rejoin.allow-region-restart", "true");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    Rejoin.train(rows(env, 1).union(rows(env, 1001)), new Counting(Map.of()))
        .transform("passed", TypeInformation.of(TrainedModel.class), new Passed())
        .sinkTo(new DiscardingSink<>());
    JobClient job = env.executeAsync();
    assertTrue(Passed.TENTH.await(60, TimeUnit.SECONDS), "a watermark of 10 has come through");
    assertTrue(Passed.MARKER.await(60, TimeUnit.SECONDS), "a latency marker has come through");
    job.cancel().get(60, TimeUnit.SECONDS);
    List<Long> sorted = new ArrayList<>(Passed.WATERMARKS);
    Collections.sort(sorted);
    assertEquals(sorted, Passed.WATERMARKS, "they never go back");
    assertEquals(10, sorted.get(sorted.size() - 1), "the other input is at 1010");
  }
}
