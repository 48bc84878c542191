package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import java.util.List;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Test;

class JobShapeTest {
  private static StreamExecutionEnvironment environment(String... settings) {
    Configuration configuration = new Configuration();
    for (int i = 0; i < settings.length; i += 2) {
      configuration.setString(settings[i], settings[i + 1]);
    }
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(3, configuration);
    environment.setRuntimeMode(RuntimeExecutionMode.STREAMING);
    return environment;
  }

  private static DataStream<Long> rows(StreamExecutionEnvironment environment) {
    return environment.fromSource(
        new NumberSequenceSource(1, 10), WatermarkStrategy.noWatermarks(), "numbers");
  }

  private static String refusal(StreamExecutionEnvironment environment) {
    RejoinException error = assertThrows(RejoinException.class, environment::getStreamGraph);
    assertEquals(RejoinException.Code.BAD_ARGUMENT, error.code());
    return error.text();
  }

  @Test
  void forward_edges_from_source_to_sink_are_accepted() {
    StreamExecutionEnvironment environment = environment();
    Rejoin.train(rows(environment).map(row -> row + 1), new Nothing())
        .map(TrainedModel::getVersion)
        .sinkTo(new DiscardingSink<>());
    assertNotNull(environment.getStreamGraph());
  }

  @Test
  void an_exchange_above_is_refused_by_the_name_of_its_edge() {
    StreamExecutionEnvironment environment = environment();
    Rejoin.train(rows(environment).keyBy(row -> row % 3).reduce(Long::sum), new Nothing())
        .sinkTo(new DiscardingSink<>());
    String text = refusal(environment);
    assertTrue(text.contains("the edge \"numbers\" → "), text);
    assertTrue(text.contains("HASH"), text);
    assertTrue(text.contains("rejoin.allow-region-restart"), text);
  }

  @Test
  void a_narrower_sink_is_refused_with_both_parallelisms() {
    StreamExecutionEnvironment environment = environment();
    Rejoin.train(rows(environment), new Nothing()).sinkTo(new DiscardingSink<>()).setParallelism(1);
    String text = refusal(environment);
    assertTrue(text.contains("goes of parallelism 3 to 1"), text);
  }

  @Test
  void an_operator_that_is_only_connected_far_below_is_seen_too() {
    StreamExecutionEnvironment environment = environment();
    DataStream<TrainedModel> models = Rejoin.train(rows(environment), new Nothing());
    DataStream<Long> others = rows(environment);
    others
        .map(row -> row)
        .connect(models.broadcast())
        .map(new Either())
        .sinkTo(new DiscardingSink<>());
    assertTrue(refusal(environment).contains("BROADCAST"));
  }

  @Test
  void exchanges_are_allowed_in_batch_and_where_asked() {
    StreamExecutionEnvironment batch = environment();
    batch.setRuntimeMode(RuntimeExecutionMode.BATCH);
    Rejoin.train(rows(batch).rebalance(), new Nothing()).sinkTo(new DiscardingSink<>());
    assertNotNull(batch.getStreamGraph());

    StreamExecutionEnvironment asked = environment("rejoin.allow-region-restart", "true");
    Rejoin.train(rows(asked).rebalance(), new Nothing()).sinkTo(new DiscardingSink<>());
    assertNotNull(asked.getStreamGraph());
  }

  @Test
  void the_adaptive_scheduler_and_speculative_execution_are_refused_by_their_settings() {
    for (String[] setting :
        List.of(
            new String[] {"jobmanager.scheduler", "adaptive"},
            new String[] {"scheduler-mode", "reactive"},
            new String[] {"execution.batch.speculative.enabled", "true"})) {
      StreamExecutionEnvironment environment = environment(setting);
      Rejoin.train(rows(environment), new Nothing()).sinkTo(new DiscardingSink<>());
      String text = refusal(environment);
      assertTrue(text.contains(setting[0].replace("scheduler-mode", "jobmanager.scheduler")), text);
    }
  }

  @Test
  void an_unknown_setting_is_refused_by_name() {
    Configuration settings = new Configuration();
    settings.setString("rejoin.batch.row", "10");
    RejoinException error =
        assertThrows(
            RejoinException.class,
            () -> Rejoin.train(rows(environment()), new Nothing(), settings));
    assertTrue(error.text().contains("rejoin.batch.row"), error.text());
  }

  private static final class Nothing implements TrainerFunction<Long, Long> {
    private static final long serialVersionUID = 1L;

    @Override
    public Long open(TrainerContext context) {
      return 0L;
    }

    @Override
    public Long onBatch(List<Long> batch, Communicator ranks, Long model) {
      return model;
    }

    @Override
    public byte[] write(Long model) {
      return new byte[0];
    }

    @Override
    public Long read(byte[] bytes) {
      return 0L;
    }
  }

  private static final class Either
      implements org.apache.flink.streaming.api.functions.co.CoMapFunction<
          Long, TrainedModel, Long> {
    private static final long serialVersionUID = 1L;

    @Override
    public Long map1(Long row) {
      return row;
    }

    @Override
    public Long map2(TrainedModel model) {
      return 0L;
    }
  }
}
