package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.xgboost.TrainingResult;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

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

  private static StreamExecutionEnvironment environment(
      RuntimeExecutionMode mode, String... settings) {
    Configuration configuration = new Configuration();
    configuration.setString("rejoin.tracker.host", "127.0.0.1");
    for (int i = 0; i < settings.length; i += 2) {
      configuration.setString(settings[i], settings[i + 1]);
    }
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
                    Arrays.copyOf(scores, expected.rounds()), model.getMetrics().get(name)));
  }

  @Test
  void rows_and_rounds_of_each_rank_are_in_flinks_metrics() throws Exception {
    List<String> reporter = new ArrayList<>();
    SeenMetrics.settings().forEach((name, value) -> reporter.addAll(List.of(name, value)));
    train(
        training(LOGISTIC),
        rows(environment(RuntimeExecutionMode.STREAMING, reporter.toArray(new String[0]))));
    assertEquals(Collections.nCopies(WORLD, (long) ROWS), SeenMetrics.of("rows"));
    assertEquals(Collections.nCopies(WORLD, (long) ROUNDS), SeenMetrics.of("round"));
    List<Long> starts = SeenMetrics.of("startMillis");
    assertTrue(starts.size() == WORLD && starts.stream().allMatch(millis -> millis >= 0));
  }

  @Test
  void a_classifier_is_the_one_that_is_trained_without_flink() throws Exception {
    XgboostModel model = train(training(LOGISTIC));
    assertSame(new LoopTraining(LOGISTIC, ROUNDS).train(ranks(null)), model);
    assertEquals(ROUNDS, model.getRounds());
    assertTrue(model.getMetrics().get("train")[ROUNDS - 1] < 0.5);
  }

  @Test
  void a_table_trains_the_model_of_its_rows_and_a_column_that_it_lacks_is_told_by_the_first_row()
      throws Exception {
    TrainingResult expected = new LoopTraining(LOGISTIC, ROUNDS).train(ranks(null));
    assertSame(expected, train(training(LOGISTIC), table()));
    assertFails(
        RejoinException.Code.BAD_ARGUMENT,
        () -> train(training(LOGISTIC).weight("heft"), table()),
        "the column 'heft' expected, these seen: ",
        "weight");
  }

  private static DataStream<Row> table() {
    StreamExecutionEnvironment environment = environment(RuntimeExecutionMode.STREAMING);
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    return tables.toDataStream(tables.fromDataStream(rows(environment)));
  }

  @Test
  void training_stops_when_the_evaluation_rows_have_not_improved_for_so_many_rounds()
      throws Exception {
    Map<String, Object> parameters = Map.of("objective", "binary:logistic", "eta", 0.9);
    XgboostModel model =
        train(
            new RejoinXGBoost(parameters, 100)
                .features("a", "bc", "d")
                .label("label")
                .evaluation("held")
                .earlyStopping(4));
    LoopTraining loop = new LoopTraining(parameters, 100);
    loop.evaluates = true;
    loop.earlyStopping = 4;
    assertSame(loop.train(ranks(null)), model);
    assertTrue(model.getRounds() < 100, model.toString());
    assertEquals(model.getRounds(), model.getMetrics().get("eval").length);
  }

  @Test
  void weights_and_a_value_that_means_that_there_is_none_count() throws Exception {
    Map<String, Object> parameters = Map.of("objective", "reg:squarederror");
    XgboostModel model = train(training(parameters).label("grade").weight("weight").missing(0));
    LoopTraining loop = new LoopTraining(parameters, ROUNDS);
    loop.label = example -> example.grade;
    loop.weight = example -> example.weight;
    loop.missing = 0;
    assertSame(loop.train(ranks(null)), model);
    loop.missing = Float.NaN;
    assertFalse(Arrays.equals(loop.train(ranks(null)).model(), model.getBytes()));
    loop.missing = 0;
    loop.weight = null;
    assertFalse(Arrays.equals(loop.train(ranks(null)).model(), model.getBytes()));
  }

  @Test
  void ranking_has_the_rows_of_a_query_together_wherever_they_come() throws Exception {
    Map<String, Object> parameters = Map.of("objective", "rank:ndcg", "eval_metric", "ndcg");
    XgboostModel model =
        train(
            new RejoinXGBoost(parameters, ROUNDS)
                .features("a", "bc", "d")
                .label("grade")
                .group("query")
                .evaluation("held"));
    LoopTraining loop = new LoopTraining(parameters, ROUNDS);
    loop.label = example -> example.grade;
    loop.group = example -> example.query;
    loop.evaluates = true;
    // The order in which they come stays within a query.
    assertSame(loop.train(ranks(Comparator.comparing(example -> example.query))), model);
  }

  /** To the rank that has these rows without the exchange. */
  private static DataStream<Row> exchanged(DataStream<Row> rows) {
    return rows.partitionCustom(
        (id, partitions) -> (int) (id % partitions), row -> row.<Long>getFieldAs(0));
  }

  private static DataStream<Row> shuffled(int seed) {
    StreamExecutionEnvironment environment = environment(RuntimeExecutionMode.BATCH);
    return exchanged(
        RankRowsSource.stream(
            environment,
            Example.TYPE,
            (rank, attempt) -> {
              List<Row> rows = new ArrayList<>();
              for (int i = 0; i < WORLD; i++) {
                Example.of(i, ROWS).forEach(example -> rows.add(example.row()));
              }
              // Every rank sends its half of all rows, in any order.
              Collections.shuffle(rows, new Random(seed));
              return rows.subList(rank * ROWS, (rank + 1) * ROWS);
            }));
  }

  @Test
  void behind_an_exchange_the_order_in_which_rows_come_makes_no_difference() throws Exception {
    XgboostModel model = train(training(LOGISTIC), shuffled(1));
    assertArrayEquals(model.getBytes(), train(training(LOGISTIC), shuffled(2)).getBytes());
    // Which order that is, nobody is promised; it isn't that of the source.
    byte[] inOrder = new LoopTraining(LOGISTIC, ROUNDS).train(ranks(null)).model();
    assertFalse(Arrays.equals(inOrder, model.getBytes()));
  }

  @Test
  void a_column_orders_the_rows_behind_an_exchange_and_without_one() throws Exception {
    TrainingResult expected = new LoopTraining(LOGISTIC, ROUNDS).train(ranks(null));
    assertSame(expected, train(training(LOGISTIC).orderBy("id"), shuffled(3)));
    DataStream<Row> backwards =
        RankRowsSource.stream(
            environment(RuntimeExecutionMode.STREAMING),
            Example.TYPE,
            (rank, attempt) -> {
              List<Row> rows = new ArrayList<>();
              Example.of(rank, ROWS).forEach(example -> rows.add(0, example.row()));
              return rows;
            });
    assertSame(expected, train(training(LOGISTIC).orderBy("id"), backwards));
  }

  /** A death of rank 1 in the fourth round; rows are those of the rank's attempt. */
  private static DataStream<Row> disturbed(
      RuntimeExecutionMode mode, RankRowsSource.Rows<Row> rows) {
    StreamExecutionEnvironment environment =
        environment(
            mode,
            "rejoin.checkpoint.rounds",
            "1",
            "rejoin.faults",
            "rank=1,version=3,at=bytes:0,do=throw",
            "restart-strategy.type",
            "fixed-delay",
            "restart-strategy.fixed-delay.attempts",
            "3",
            "restart-strategy.fixed-delay.delay",
            "10 ms");
    return RankRowsSource.stream(environment, Example.TYPE, rows);
  }

  private static final Map<Integer, Integer> ATTEMPTS = new ConcurrentHashMap<>();

  @ParameterizedTest
  @EnumSource(names = {"STREAMING", "BATCH"})
  void a_rank_that_is_lost_comes_back_alone_and_the_model_is_the_same(RuntimeExecutionMode mode)
      throws Exception {
    ATTEMPTS.clear();
    DataStream<Row> rows =
        disturbed(
            mode,
            (rank, attempt) -> {
              ATTEMPTS.merge(rank, attempt, Math::max);
              return Example.of(rank, ROWS).stream().map(Example::row).collect(Collectors.toList());
            });
    XgboostModel model = train(training(LOGISTIC), rows);
    assertSame(new LoopTraining(LOGISTIC, ROUNDS).train(ranks(null)), model);
    assertEquals(Map.of(0, 0, 1, 1), ATTEMPTS);
  }

  private static void assertFails(RejoinException.Code code, Executable job, String... said) {
    Throwable failure = assertThrows(Exception.class, job);
    while (!(failure instanceof RejoinException) && failure.getCause() != null) {
      failure = failure.getCause();
    }
    RejoinException error = assertInstanceOf(RejoinException.class, failure);
    assertEquals(code, error.code(), error.text());
    for (String text : said) {
      assertTrue(error.text().contains(text), error.text());
    }
  }

  @Test
  void a_rank_that_comes_back_with_other_rows_ends_the_job() {
    DataStream<Row> rows =
        disturbed(
            RuntimeExecutionMode.STREAMING,
            (rank, attempt) ->
                Example.of(rank, ROWS - attempt).stream()
                    .map(Example::row)
                    .collect(Collectors.toList()));
    assertFails(
        RejoinException.Code.MISMATCH,
        () -> train(training(LOGISTIC), rows),
        "the rows of rank 1 are not those",
        "expected 400 rows",
        "read 399 rows");
  }

  @Test
  void a_rank_without_rows_ends_the_job_with_what_to_do() {
    DataStream<Row> none =
        rows(environment(RuntimeExecutionMode.STREAMING))
            .filter(row -> row.<Long>getFieldAs(0) % 2 == 1);
    assertFails(
        RejoinException.Code.TRAINING_FAILED,
        () -> train(training(LOGISTIC), none),
        "rank 0 has no rows for training",
        "parallelism");
    DataStream<Row> trained =
        rows(environment(RuntimeExecutionMode.STREAMING))
            .filter(row -> !row.<Boolean>getFieldAs(8));
    assertFails(
        RejoinException.Code.TRAINING_FAILED,
        () -> train(training(LOGISTIC).evaluation("held"), trained),
        "has no rows for evaluation");
  }

  @Test
  void what_cannot_be_trained_is_refused_where_the_job_is_built() {
    DataStream<Row> rows = rows(environment(RuntimeExecutionMode.STREAMING));
    RejoinException.Code bad = RejoinException.Code.BAD_ARGUMENT;
    assertFails(bad, () -> new RejoinXGBoost(LOGISTIC, 1).label("label").train(rows), "features");
    assertFails(bad, () -> new RejoinXGBoost(LOGISTIC, 1).features("a").train(rows), "label");
    assertFails(
        bad,
        () -> new RejoinXGBoost(LOGISTIC, 0).features("a").label("label").train(rows),
        "not 0");
    assertFails(bad, () -> training(LOGISTIC).earlyStopping(-1).train(rows), "not -1");
    assertFails(bad, () -> training(LOGISTIC).weight("wait").train(rows), "'wait'", "weight");
    assertFails(
        bad, () -> training(Map.of("objective", "rank:ndcg")).train(rows), "rank:ndcg", "group");
    assertFails(
        bad, () -> training(LOGISTIC).group("query").train(rows), "group", "binary:logistic");
    assertFails(bad, () -> training(Map.of("booster", "gblinear")).train(rows), "gblinear", "2");
    assertFails(
        bad,
        () -> training(Map.of("eval_metric", List.of("auc", "logloss"))).train(rows),
        "eval_metric",
        "one metric");
    assertFails(
        bad,
        () -> training(Collections.singletonMap("max_depth", null)).train(rows),
        "max_depth is null");
    Configuration misspelt = new Configuration();
    misspelt.setString("rejoin.hok", "off");
    assertFails(bad, () -> training(LOGISTIC).train(rows, misspelt), "rejoin.hok");
    DataStream<Row> endless =
        rows.getExecutionEnvironment()
            .fromSource(
                new NumberSequenceSource(0, 1) {
                  private static final long serialVersionUID = 1L;

                  @Override
                  public Boundedness getBoundedness() {
                    return Boundedness.CONTINUOUS_UNBOUNDED;
                  }
                },
                WatermarkStrategy.noWatermarks(),
                "endless",
                Types.LONG)
            .map(number -> Row.of(number))
            .returns(Example.TYPE);
    assertFails(bad, () -> training(LOGISTIC).train(endless), "has no end");
  }

  @Test
  void a_row_that_cannot_be_trained_on_ends_the_job_with_its_column() {
    assertFails(
        RejoinException.Code.BAD_ARGUMENT,
        () -> train(training(LOGISTIC).orderBy("weight")),
        "'weight'",
        "whole number",
        "Double");
    assertFails(
        RejoinException.Code.BAD_ARGUMENT,
        () -> train(training(LOGISTIC).evaluation("query")),
        "'query'",
        "BOOLEAN");
    assertFails(
        RejoinException.Code.TRAINING_FAILED,
        () -> train(training(LOGISTIC).label("weight")),
        "XGBoost failed at rank",
        "logistic");
  }

  @Test
  void rows_of_a_query_with_different_weights_end_the_job_with_both() {
    assertFails(
        RejoinException.Code.BAD_ARGUMENT,
        () ->
            train(
                training(Map.of("objective", "rank:ndcg"))
                    .label("grade")
                    .group("query")
                    .weight("weight")),
        "query group",
        "weights");
  }
}
