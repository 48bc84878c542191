package io.rejoin.it;

import static org.apache.spark.ml.functions.vector_to_array;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.spark.RejoinEstimator;
import io.rejoin.xgboost.XgboostVersion;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRegressionModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRegressor;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.evaluation.BinaryClassificationEvaluator;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.tuning.CrossValidator;
import org.apache.spark.ml.tuning.CrossValidatorModel;
import org.apache.spark.ml.tuning.ParamGridBuilder;
import org.apache.spark.ml.tuning.TrainValidationSplit;
import org.apache.spark.ml.tuning.TrainValidationSplitModel;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.Tuple2;
import scala.collection.Seq;

/** Where the stock estimator works, ours works, and gives the same models. */
@DisplayName("ours stands wherever the stock estimator stands")
class BreadthIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int WORKERS = 3;
  private static final int ROUNDS = 6;

  private static SparkSession spark() {
    return Sessions.of(Sessions.Shape.LOCAL);
  }

  private static Dataset<Row> rows() {
    return Recipe.BINARY.data(spark(), WORKERS);
  }

  private static XGBoostClassifier classifier() {
    return (XGBoostClassifier) Recipe.BINARY.estimator(spark(), WORKERS, ROUNDS);
  }

  private static <T> T within(String what, Callable<T> work) throws Exception {
    return Deadline.within(LIMIT, what, Sessions.cluster(), work);
  }

  /** Model, history and predictions of the stock estimator and of ours are the same. */
  private static void sameAsStock(Consumer<XGBoostClassifier> change, Dataset<Row> rows)
      throws Exception {
    XGBoostClassifier stock = classifier();
    change.accept(stock);
    XGBoostClassificationModel expected = within("stock", () -> stock.fit(rows));
    XGBoostClassificationModel seen =
        within("ours", () -> new RejoinEstimator<XGBoostClassificationModel>(stock).fit(rows));
    assertEquals(Digest.of(expected), Digest.of(seen));
    sameSummary(expected.summary().get(), seen.summary().get());
    assertEquals(
        expected.extractParamMap().toString(), seen.extractParamMap().toString(), "parameters");
    // As text: a row with a value that is no number is not equal to itself.
    assertEquals(
        expected.transform(rows.limit(50)).collectAsList().toString(),
        seen.transform(rows.limit(50)).collectAsList().toString());
  }

  private static void sameSummary(XGBoostTrainingSummary expected, XGBoostTrainingSummary seen)
      throws ReflectiveOperationException {
    assertArrayEquals(expected.trainObjectiveHistory(), seen.trainObjectiveHistory());
    assertEquals(validation(expected), validation(seen));
  }

  /** The values of each evaluation set by its name. */
  private static Map<String, String> validation(XGBoostTrainingSummary summary)
      throws ReflectiveOperationException {
    // By reflection: the list is of another class in Scala 2.13 than in 2.12.
    String name = "validationObjectiveHistory";
    Seq<?> history = (Seq<?>) XGBoostTrainingSummary.class.getMethod(name).invoke(summary);
    Map<String, String> values = new LinkedHashMap<>();
    for (int i = 0; i < history.size(); i++) {
      Tuple2<?, ?> set = (Tuple2<?, ?>) history.apply(i);
      values.put((String) set._1(), Arrays.toString((float[]) set._2()));
    }
    return values;
  }

  /**
   * Where rounds are many enough for a checkpoint. Up to XGBoost 3.2 a sampled model depends on
   * when checkpoints are, so there the stock one is another.
   */
  private static void sampleNothingUpTo32(XGBoostClassifier stock) {
    if (!XgboostVersion.loaded().keepsBooster()) {
      stock.setSubsample(1.0);
      stock.setColsampleBytree(1.0);
    }
  }

  /**
   * The error with which the stock estimator can't be saved, if it can't: XGBoost4J 3.1 is compiled
   * for another json4s than Spark 4.1 brings.
   */
  private static Optional<NoSuchMethodError> unsavable(XGBoostClassifier stock, Path folder)
      throws IOException {
    try {
      stock.save(folder.resolve("stock").toString());
      return Optional.empty();
    } catch (NoSuchMethodError theirs) {
      return Optional.of(theirs);
    }
  }

  /** This fails as the stock estimator does. */
  private static void cannotBeSaved(MLWritable what, NoSuchMethodError theirs, Path folder) {
    String place = folder.resolve("of " + what.getClass().getSimpleName()).toString();
    NoSuchMethodError seen = assertThrows(NoSuchMethodError.class, () -> what.save(place));
    assertEquals(theirs.getMessage(), seen.getMessage());
  }

  @Test
  void an_evaluation_set_with_early_stopping_stops_where_the_stock_estimator_stops()
      throws Exception {
    sameWithEvaluation(rows().where("disea > 20"));
  }

  @Test
  void an_evaluation_set_of_arrays_counts_beside_training_rows_of_vectors() throws Exception {
    Column arrays = vector_to_array(functions.col("features"), "float32");
    sameWithEvaluation(rows().where("disea > 20").withColumn("features", arrays));
  }

  private static void sameWithEvaluation(Dataset<Row> evaluation) throws Exception {
    sameAsStock(
        stock -> {
          stock.setNumRound(60);
          stock.setEta(1.0);
          stock.setEvalDataset(evaluation);
          stock.setEvalMetric("auc");
          stock.setNumEarlyStoppingRounds(2);
          sampleNothingUpTo32(stock);
        },
        rows().where("disea <= 20"));
  }

  @Test
  void weights_count() throws Exception {
    sameAsStock(
        stock -> stock.setWeightCol("weight"),
        rows().withColumn("weight", functions.expr("cast(1 + idp + abs(lpi) as float)")));
  }

  @Test
  void base_margins_count() throws Exception {
    sameAsStock(
        stock -> stock.setBaseMarginCol("margin"),
        rows().withColumn("margin", functions.expr("cast(disea / 10 - 1 as float)")));
  }

  @Test
  void a_custom_objective_and_metric_count() throws Exception {
    Dataset<Row> evaluation = rows().where("disea > 20");
    sameAsStock(
        stock -> {
          // Beyond a checkpoint.
          stock.setNumRound(12);
          sampleNothingUpTo32(stock);
          stock.setObjective("binary:logistic");
          stock.setCustomObj(new LogisticObjective(0, 0, 0));
          stock.setCustomEval(new DistanceMetric());
          stock.setEvalDataset(evaluation);
        },
        rows().where("disea <= 20"));
  }

  private static XGBoostClassifier withSharedMetric() {
    XGBoostClassifier stock = classifier();
    stock.setNumRound(60);
    stock.setEta(1.0);
    stock.setObjective("binary:logistic");
    stock.setCustomEval(new SharedMetric());
    stock.setEvalDataset(rows().where("disea > 20"));
    stock.setNumEarlyStoppingRounds(2);
    sampleNothingUpTo32(stock);
    return stock;
  }

  @Test
  void a_custom_metric_with_early_stopping_stops_where_the_stock_estimator_stops()
      throws Exception {
    Dataset<Row> rows = rows().where("disea <= 20");
    XGBoostClassifier stock = withSharedMetric();
    XGBoostClassificationModel expected = within("stock", () -> stock.fit(rows));
    XGBoostClassificationModel seen =
        within("ours", () -> new RejoinEstimator<XGBoostClassificationModel>(stock).fit(rows));
    for (String attribute : new String[] {"best_iteration", "best_score"}) {
      assertEquals(
          expected.nativeBooster().booster().getAttr(attribute),
          seen.nativeBooster().booster().getAttr(attribute),
          attribute);
    }
    int trained = expected.nativeBooster().booster().getNumBoostedRound();
    assertTrue(trained > 2 && trained < 60, "stopped early, and not at once: " + trained);
    assertEquals(Digest.of(expected), Digest.of(seen));
    sameSummary(expected.summary().get(), seen.summary().get());

    // What early stopping remembers of a custom metric lies with each rank, and comes back to it.
    RejoinRun disturbed =
        new RejoinRun(spark(), Recipe.BINARY, WORKERS, 60)
            .estimator(withSharedMetric())
            .data(rows)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            .fault(Fault.of(0).version(trained - 2, 1_000).throwError());
    Outcome outcome = within("ours, disturbed", disturbed::train);
    assertEquals(1, disturbed.fired());
    assertEquals(Digest.of(expected), outcome.digest());
  }

  @Test
  void missing_values_of_dense_and_of_sparse_rows_stay_missing() throws Exception {
    sameAsStock(stock -> stock.setMissing(0f), rows());
    Dataset<Row> holes =
        rows()
            .withColumn("lpi", functions.expr("if(disea > 15, double('NaN'), lpi)"))
            .withColumn("many", functions.expr("array(float(lpi), float(disea), float(idp))"));
    sameAsStock(
        stock -> {
          stock.setFeaturesCol("many");
          stock.setMissing(Float.NaN);
        },
        holes);
  }

  @Test
  void features_in_columns_of_their_own_count() throws Exception {
    sameAsStock(
        stock -> {
          stock.setFeaturesCol(Randhie.FEATURES);
          stock.setMissing(Float.NaN);
        },
        rows());
  }

  @Test
  void a_pipeline_trains_saves_loads_and_gives_the_stock_model(@TempDir Path folder)
      throws Exception {
    Dataset<Row> table = rows().drop("features");
    VectorAssembler assembler =
        new VectorAssembler().setInputCols(Randhie.FEATURES).setOutputCol("features");
    XGBoostClassifier stock = classifier();
    PipelineModel expected =
        within(
            "stock pipeline",
            () -> new Pipeline().setStages(new PipelineStage[] {assembler, stock}).fit(table));
    RejoinEstimator<XGBoostClassificationModel> ours = new RejoinEstimator<>(stock);
    Pipeline pipeline = new Pipeline().setStages(new PipelineStage[] {assembler, ours});
    PipelineModel seen = within("our pipeline", () -> pipeline.fit(table));
    assertEquals(Digest.of(expected.stages()[1]), Digest.of(seen.stages()[1]));

    Optional<NoSuchMethodError> theirs = unsavable(stock, folder);
    if (theirs.isPresent()) {
      cannotBeSaved(pipeline, theirs.get(), folder);
      cannotBeSaved(seen, theirs.get(), folder);
      // What docs/xgboost.md says to do instead.
      XGBoostClassificationModel model = (XGBoostClassificationModel) seen.stages()[1];
      model.nativeBooster().saveModel(folder.resolve("model.ubj").toString());
      assertTrue(Files.size(folder.resolve("model.ubj")) > 0);
      return;
    }
    pipeline.save(folder.resolve("pipeline").toString());
    Pipeline loaded = Pipeline.load(folder.resolve("pipeline").toString());
    PipelineModel again = within("the loaded pipeline", () -> loaded.fit(table));
    assertEquals(Digest.of(expected.stages()[1]), Digest.of(again.stages()[1]));

    seen.save(folder.resolve("model").toString());
    PipelineModel model = PipelineModel.load(folder.resolve("model").toString());
    assertEquals(
        expected.transform(table.limit(50)).collectAsList(),
        model.transform(table.limit(50)).collectAsList());
  }

  @Test
  void the_estimator_saves_and_loads_alone(@TempDir Path folder) throws Exception {
    XGBoostClassifier stock = classifier();
    stock.setMaxDepth(3);
    RejoinEstimator<XGBoostClassificationModel> ours = new RejoinEstimator<>(stock);
    Optional<NoSuchMethodError> theirs = unsavable(stock, folder);
    if (theirs.isPresent()) {
      cannotBeSaved(ours, theirs.get(), folder);
      return;
    }
    ours.save(folder.resolve("estimator").toString());
    RejoinEstimator<?> loaded = RejoinEstimator.load(folder.resolve("estimator").toString());
    assertEquals(ours.uid(), loaded.uid());
    assertEquals(
        Digest.of(within("ours", () -> ours.fit(rows()))),
        Digest.of(within("loaded", () -> loaded.fit(rows()))));
  }

  @Test
  void a_copy_trains_with_its_own_parameters_and_the_evaluation_set() throws Exception {
    XGBoostClassifier stock = classifier();
    stock.setEvalDataset(rows().where("disea > 20"));
    RejoinEstimator<XGBoostClassificationModel> ours = new RejoinEstimator<>(stock);
    RejoinEstimator<XGBoostClassificationModel> copy =
        ours.copy(new ParamMap().put(stock.maxDepth(), 2));
    XGBoostClassificationModel deep = within("the original", () -> ours.fit(rows()));
    XGBoostClassificationModel flat = within("the copy", () -> copy.fit(rows()));
    assertNotEquals(Digest.of(deep), Digest.of(flat));
    assertEquals(2, flat.getMaxDepth());
    assertEquals(6, deep.getMaxDepth());
    assertEquals(1, validation(flat.summary().get()).size());
    assertSame(ours, deep.parent());
    // Parameters given to the fit count as those of a copy do.
    XGBoostClassificationModel given =
        within("with a map", () -> ours.fit(rows(), new ParamMap().put(stock.maxDepth(), 2)));
    assertEquals(Digest.of(flat), Digest.of(given));
  }

  @Test
  void what_can_be_survived_is_said_at_the_start_and_what_it_took_at_the_end() throws Exception {
    RejoinRun run = new RejoinRun(spark(), Recipe.BINARY, WORKERS, ROUNDS);
    try (Logs logs = Logs.collectAll()) {
      within("ours", run::train);
      assertEquals(1, logs.with("each rank may die 3 times").size());
      List<String> end = logs.with("the most that one executor held");
      assertEquals(1, end.size());
      assertTrue(
          end.get(0).matches(".*\\(round 6\\) after [0-9.]+ s and 0 deaths, with.*"), end.get(0));
      assertTrue(end.get(0).matches(".*logs of [1-9][0-9]* bytes in memory.*"), end.get(0));
      assertTrue(end.get(0).matches(".*checkpoints of [1-9][0-9]* bytes.*"), end.get(0));
      // Which way XGBoost's collectives went: when it was agreed, and once more at the end.
      String way = "XGBoost's collectives are served by Rejoin's (all 3 ranks can)";
      assertEquals(2, logs.with(way).size());
      assertTrue(end.get(0).endsWith(way), end.get(0));
    }
  }

  @Test
  void a_regressor_comes_back_as_its_own_model_class() throws Exception {
    XGBoostRegressor stock = (XGBoostRegressor) Recipe.COUNT.estimator(spark(), WORKERS, ROUNDS);
    Dataset<Row> rows = Recipe.COUNT.data(spark(), WORKERS);
    XGBoostRegressionModel seen =
        within("ours", () -> new RejoinEstimator<XGBoostRegressionModel>(stock).fit(rows));
    assertEquals(Digest.of(within("stock", () -> stock.fit(rows))), Digest.of(seen));
  }

  @Test
  void cross_validation_with_parallelism_2_on_3_slots_works_first_come_first_served()
      throws Exception {
    crossValidates("FIFO");
  }

  @Test
  void cross_validation_with_parallelism_2_on_3_slots_works_with_fair_scheduling()
      throws Exception {
    crossValidates("FAIR");
  }

  private static void crossValidates(String mode) throws Exception {
    Sessions.of(
        Sessions.Shape.LOCAL, Map.of("spark.master", "local[3,4]", "spark.scheduler.mode", mode));
    SparkSession spark = SparkSession.active();
    Dataset<Row> rows = Recipe.BINARY.data(spark, WORKERS).cache();
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(spark, WORKERS, 4);
    RejoinEstimator<XGBoostClassificationModel> ours = new RejoinEstimator<>(stock);
    ParamMap[] grid = new ParamGridBuilder().addGrid(stock.maxDepth(), new int[] {2, 5}).build();
    CrossValidator validator =
        new CrossValidator()
            .setEstimator(ours)
            .setEstimatorParamMaps(grid)
            .setEvaluator(new BinaryClassificationEvaluator())
            .setNumFolds(2)
            .setSeed(3)
            .setParallelism(2);
    CrossValidatorModel seen = within("cross validation, " + mode, () -> validator.fit(rows));
    assertEquals(2, seen.avgMetrics().length);
    for (double metric : seen.avgMetrics()) {
      assertTrue(metric > 0.5 && metric < 1, "area under the curve: " + metric);
    }
    // The best model is the one of a plain fit with those parameters on all rows.
    ParamMap best = grid[seen.avgMetrics()[0] > seen.avgMetrics()[1] ? 0 : 1];
    assertEquals(
        Digest.of(within("the best again", () -> ours.fit(rows, best))),
        Digest.of(seen.bestModel()));
  }

  @Test
  void a_train_validation_split_over_stock_parameters_works() throws Exception {
    XGBoostClassifier stock = classifier();
    ParamMap[] grid =
        new ParamGridBuilder()
            .addGrid(stock.maxDepth(), new int[] {2, 5})
            .addGrid(stock.eta(), new double[] {0.3})
            .build();
    Dataset<Row> rows = rows().cache();
    TrainValidationSplit split =
        new TrainValidationSplit()
            .setEstimator(new RejoinEstimator<XGBoostClassificationModel>(stock))
            .setEstimatorParamMaps(grid)
            .setEvaluator(new BinaryClassificationEvaluator())
            .setSeed(3)
            .setParallelism(2);
    TrainValidationSplitModel seen = within("split", () -> split.fit(rows));
    assertEquals(2, seen.validationMetrics().length);
    assertTrue(seen.bestModel() instanceof XGBoostClassificationModel);
  }
}
