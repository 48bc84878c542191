package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.xgboost.TrainingResult;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** In one process: the same model as without Flink. Deaths are for real clusters. */
@Timeout(180)
class RejoinXGBoostTest {
  private static final int WORLD = 2;
  private static final int ROWS = 400;
  private static final int ROUNDS = 12;
  private static final Map<String, Object> LOGISTIC =
      Map.of("objective", "binary:logistic", "max_depth", 3, "subsample", 0.8);
  private static final Map<String, List<XgboostModel>> MODELS = new ConcurrentHashMap<>();

  /** Keeps models where the test finds them, without an edge that would connect subtasks. */
  private static final class Keep implements MapFunction<XgboostModel, XgboostModel> {
    private static final long serialVersionUID = 1L;

    private final String name;

    Keep(String name) {
      this.name = name;
    }

    @Override
    public XgboostModel map(XgboostModel model) {
      MODELS.get(name).add(model);
      return model;
    }
  }

  private static StreamExecutionEnvironment environment(RuntimeExecutionMode mode) {
    Configuration configuration = new Configuration();
    configuration.setString("rejoin.tracker.host", "127.0.0.1");
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(WORLD, configuration);
    environment.setRuntimeMode(mode);
    return environment;
  }

  private static DataStream<Row> rows(StreamExecutionEnvironment environment) {
    return RankRowsSource.stream(
        environment,
        Example.TYPE,
        (rank, attempt) ->
            Example.of(rank, ROWS).stream().map(Example::row).collect(Collectors.toList()));
  }

  private static RejoinXGBoost training(Map<String, Object> parameters) {
    return new RejoinXGBoost(parameters, ROUNDS).features("a", "bc", "d").label("label");
  }

  /** The only model that comes out. */
  private static XgboostModel train(RejoinXGBoost training, DataStream<Row> rows) throws Exception {
    String name = UUID.randomUUID().toString();
    MODELS.put(name, new ArrayList<>());
    training.train(rows).map(new Keep(name)).sinkTo(new DiscardingSink<>());
    rows.getExecutionEnvironment().execute();
    assertEquals(1, MODELS.get(name).size());
    return MODELS.get(name).get(0);
  }

  private static XgboostModel train(RejoinXGBoost training) throws Exception {
    return train(training, rows(environment(RuntimeExecutionMode.STREAMING)));
  }

  private static List<List<Example>> ranks(Comparator<Example> order) {
    List<List<Example>> ranks = new ArrayList<>();
    for (int rank = 0; rank < WORLD; rank++) {
      List<Example> rows = Example.of(rank, ROWS);
      if (order != null) {
        rows.sort(order);
      }
      ranks.add(rows);
    }
    return ranks;
  }

  private static void assertSame(TrainingResult expected, XgboostModel model) {
    assertArrayEquals(expected.model(), model.getBytes());
    assertEquals(expected.rounds(), model.getRounds());
    assertEquals(expected.metrics().keySet(), model.getMetrics().keySet());
    expected
        .metrics()
        .forEach(
            (name, scores) ->
                assertArrayEquals(
                    java.util.Arrays.copyOf(scores, expected.rounds()),
                    model.getMetrics().get(name)));
  }

  @Test
  void a_classifier_is_the_one_that_is_trained_without_flink() throws Exception {
    XgboostModel model = train(training(LOGISTIC));
    assertSame(new LoopTraining(LOGISTIC, ROUNDS).train(ranks(null)), model);
    assertEquals(ROUNDS, model.getRounds());
    assertTrue(model.getMetrics().get("train")[ROUNDS - 1] < 0.5);
  }
}
