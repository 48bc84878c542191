package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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

  @ParameterizedTest
  @ValueSource(strings = {"ALL_EXCHANGES_PIPELINED", "ALL_EXCHANGES_HYBRID_SELECTIVE"})
  void an_exchange_in_batch_that_can_not_be_read_twice_is_refused_by_the_setting(String mode) {
    for (boolean exchanges : new boolean[] {true, false}) {
      StreamExecutionEnvironment environment = environment("execution.batch-shuffle-mode", mode);
      environment.setRuntimeMode(RuntimeExecutionMode.BATCH);
      DataStream<Long> rows = rows(environment);
      Rejoin.train(exchanges ? rows.rebalance() : rows, new Nothing())
          .sinkTo(new DiscardingSink<>());
      if (exchanges) {
        String text = refusal(environment);
        assertTrue(text.contains("execution.batch-shuffle-mode is " + mode), text);
        assertTrue(text.contains("set it to ALL_EXCHANGES_BLOCKING"), text);
      } else {
        assertNotNull(environment.getStreamGraph());
      }
    }
  }

  @Test
  void rows_of_several_inputs_are_refused_in_streaming_and_put_into_an_order_in_batch() {
    StreamExecutionEnvironment environment = environment();
    DataStream<Long> both = rows(environment).union(rows(environment));
    DataStream<TrainedModel> models = Rejoin.train(both, new Nothing());
    models.sinkTo(new DiscardingSink<>());
    String text = refusal(environment);
    assertTrue(text.contains("takes rows of several inputs as they come"), text);
    assertTrue(text.contains("rejoin.allow-region-restart"), text);
    assertFalse(
        JobShape.of(List.of(models.getTransformation()), environment.getConfiguration())
            .keepsOrder());
    StreamExecutionEnvironment batch = environment();
    batch.setRuntimeMode(RuntimeExecutionMode.BATCH);
    Rejoin.train(rows(batch).union(rows(batch)), new Nothing()).sinkTo(new DiscardingSink<>());
    assertNotNull(batch.getStreamGraph());
  }

  @Test
  void a_rank_in_another_task_than_its_source_is_warned_of_what_its_end_holds_up() {
    String[] settings = {"execution.checkpointing.interval", "1s"};
    assertEquals("", endWarning(environment(settings)));
    StreamExecutionEnvironment apart =
        environment("execution.checkpointing.interval", "1s", "rejoin.slot-sharing-group", "ranks");
    String text = endWarning(apart);
    assertTrue(text.contains("isn't in one task with its source"), text);
    assertTrue(text.contains("execution.checkpointing.timeout"), text);
    assertEquals("", endWarning(environment("rejoin.slot-sharing-group", "ranks")));
  }

  @Test
  void models_that_only_a_table_program_takes_are_warned_of() throws Exception {
    StreamExecutionEnvironment environment = environment();
    DataStream<TrainedModel> models = Rejoin.train(rows(environment), new Nothing());
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    tables.createTemporaryView("models", tables.fromDataStream(models));
    assertTrue(unseenWarning(environment, models).contains("all edges are FORWARD"));
    models.sinkTo(new DiscardingSink<>());
    assertEquals("", unseenWarning(environment, models));
  }

  private static String unseenWarning(
      StreamExecutionEnvironment environment, DataStream<TrainedModel> models) {
    return JobShape.of(environment.getTransformations(), environment.getConfiguration())
        .unseenWarning(models.getTransformation())
        .orElse("");
  }

  private static String endWarning(StreamExecutionEnvironment environment) {
    DataStream<TrainedModel> models = Rejoin.train(rows(environment), new Nothing());
    return JobShape.of(List.of(models.getTransformation()), environment.getConfiguration())
        .warnings(models.getTransformation())
        .stream()
        .filter(warning -> warning.contains("in one task"))
        .collect(Collectors.joining());
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
      assertTrue(text.contains(setting[0] + " is "), text);
    }
  }

  @Test
  void checkpoints_by_which_rows_may_come_twice_are_refused_where_there_are_any() {
    String[] twice = {"execution.checkpointing.mode", "AT_LEAST_ONCE"};
    StreamExecutionEnvironment environment =
        environment(twice[0], twice[1], "execution.checkpointing.interval", "1s");
    Rejoin.train(rows(environment), new Nothing()).sinkTo(new DiscardingSink<>());
    String text = refusal(environment);
    assertTrue(text.contains("execution.checkpointing.mode is AT_LEAST_ONCE"), text);
    assertTrue(text.contains("set it to EXACTLY_ONCE"), text);

    StreamExecutionEnvironment none = environment(twice);
    Rejoin.train(rows(none), new Nothing()).sinkTo(new DiscardingSink<>());
    assertNotNull(none.getStreamGraph());
  }

  @Test
  void a_job_that_no_death_is_survived_by_or_whose_rows_may_change_is_told_so() {
    String[] restarts = {"restart-strategy.type", "exponential-delay"};
    String[] checkpoints = {"execution.checkpointing.interval", "1s"};
    String fatal = "the first death ends the job. Set it to exponential-delay";
    String anew = "should all die at once, training begins anew";
    String owner = "the source \"numbers\" isn't taken by Rejoin.source";
    assertWarnings(List.of(fatal, anew, owner), false);
    assertWarnings(List.of(anew, owner), false, restarts);
    assertWarnings(List.of(owner), false, checkpoints);
    assertWarnings(List.of(), true, checkpoints);
  }

  private static void assertWarnings(List<String> expected, boolean bySplit, String... settings) {
    StreamExecutionEnvironment environment = environment(settings);
    NumberSequenceSource numbers = new NumberSequenceSource(1, 10);
    WatermarkStrategy<Long> none = WatermarkStrategy.noWatermarks();
    DataStream<TrainedModel> models =
        bySplit
            ? Rejoin.train(Rejoin.source(environment, numbers, none, "numbers"), new Nothing())
            : Rejoin.train(rows(environment), new Nothing());
    List<String> warnings =
        JobShape.of(List.of(models.getTransformation()), environment.getConfiguration())
            .warnings(models.getTransformation());
    assertEquals(expected.size(), warnings.size(), warnings.toString());
    for (int i = 0; i < expected.size(); i++) {
      assertTrue(warnings.get(i).contains(expected.get(i)), warnings.get(i));
    }
  }

  @Test
  void aligned_sources_are_refused_where_a_batch_waits_for_all_its_rows() {
    WatermarkStrategy<Long> aligned =
        WatermarkStrategy.<Long>noWatermarks().withWatermarkAlignment("all", Duration.ofSeconds(1));
    StreamExecutionEnvironment plain = environment();
    Rejoin.train(
            plain.fromSource(new NumberSequenceSource(1, 10), aligned, "numbers"), new Nothing())
        .sinkTo(new DiscardingSink<>());
    String text = refusal(plain);
    assertTrue(text.contains("\"numbers\" has watermark alignment"), text);
    assertTrue(text.contains("rejoin.batch.wait is 0"), text);

    StreamExecutionEnvironment bySplit = environment();
    Rejoin.train(
            Rejoin.source(bySplit, new NumberSequenceSource(1, 10), aligned, "numbers"),
            new Nothing())
        .sinkTo(new DiscardingSink<>());
    assertTrue(refusal(bySplit).contains("rejoin.batch.wait"));

    StreamExecutionEnvironment timed = environment("rejoin.batch.wait", "1s");
    Rejoin.train(
            timed.fromSource(new NumberSequenceSource(1, 10), aligned, "numbers"), new Nothing())
        .sinkTo(new DiscardingSink<>());
    assertNotNull(timed.getStreamGraph());
  }

  @Test
  void ranks_have_the_slots_of_their_input_unless_a_group_is_set() {
    assertEquals("default", groupOfRanks());
    assertEquals("ranks", groupOfRanks("rejoin.slot-sharing-group", "ranks"));
  }

  private static String groupOfRanks(String... settings) {
    StreamExecutionEnvironment environment = environment(settings);
    environment.configure(Configuration.fromMap(Map.of("taskmanager.numberOfTaskSlots", "6")));
    Rejoin.train(rows(environment), new Nothing()).sinkTo(new DiscardingSink<>());
    return environment.getStreamGraph().getStreamNodes().stream()
        .filter(node -> node.getOperatorName().startsWith("train"))
        .findFirst()
        .orElseThrow()
        .getSlotSharingGroup();
  }

  @Test
  void a_source_in_the_ranks_group_is_in_their_task() {
    StreamExecutionEnvironment environment = environment("rejoin.slot-sharing-group", "ranks");
    Rejoin.train(
            Rejoin.source(
                    environment,
                    new NumberSequenceSource(1, 10),
                    WatermarkStrategy.noWatermarks(),
                    "numbers")
                .slotSharingGroup("ranks")
                .filter(row -> row > 1),
            new Nothing())
        .sinkTo(new DiscardingSink<>());
    assertEquals(1, environment.getStreamGraph().getJobGraph().getNumberOfVertices());
  }

  @Test
  void a_job_that_can_never_have_its_slots_is_refused_with_both_numbers() {
    for (String[] setting :
        List.of(
            new String[] {"rejoin.slot-sharing-group", "ranks"},
            new String[] {"taskmanager.numberOfTaskSlots", "2"},
            new String[] {"slotmanager.number-of-slots.max", "2"})) {
      StreamExecutionEnvironment environment = environment(setting);
      Rejoin.train(rows(environment), new Nothing()).sinkTo(new DiscardingSink<>());
      String text = refusal(environment);
      boolean isOwnGroup = setting[1].equals("ranks");
      assertTrue(text.contains(isOwnGroup ? "{default=3, ranks=3}" : "{default=3}"), text);
      assertTrue(text.contains(isOwnGroup ? "environment has 3" : " 2: "), text);
      assertTrue(text.contains("to at least " + (isOwnGroup ? 6 : 3)), text);
    }
  }

  @Test
  void in_batch_slots_are_needed_for_the_ranks_alone() {
    StreamExecutionEnvironment environment = environment("rejoin.slot-sharing-group", "ranks");
    environment.setRuntimeMode(RuntimeExecutionMode.BATCH);
    Rejoin.train(rows(environment), new Nothing()).sinkTo(new DiscardingSink<>());
    assertNotNull(environment.getStreamGraph());
  }

  @Test
  void slow_heartbeats_are_told_of_where_a_cluster_has_them_and_no_short_timeout_is_recommended() {
    String advice = heartbeatAdvice("remote").orElseThrow();
    assertTrue(advice.startsWith("heartbeat.interval is 10000 ms"), advice);
    assertTrue(advice.contains("set it to 500 ms"), advice);
    assertTrue(advice.contains("leave heartbeat.timeout (50000 ms) as it is"), advice);
    assertEquals(Optional.empty(), heartbeatAdvice("remote", "heartbeat.interval", "1s"));
    assertEquals(Optional.empty(), heartbeatAdvice("local"));
  }

  private static Optional<String> heartbeatAdvice(String target, String... settings) {
    Configuration configuration = new Configuration();
    configuration.setString("execution.target", target);
    for (int i = 0; i < settings.length; i += 2) {
      configuration.setString(settings[i], settings[i + 1]);
    }
    return JobShape.of(List.of(), configuration).heartbeatAdvice();
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
