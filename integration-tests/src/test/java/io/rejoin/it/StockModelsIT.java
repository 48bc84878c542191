package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.spark.RejoinEstimator;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRanker;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRankerModel;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Models from pages, byte for byte those that the stock estimator makes of the same rows. In local
 * mode: where the ranks are changes nothing about it, and other tests have real clusters.
 */
@DisplayName("the stock estimator's model comes out of")
class StockModelsIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int WORKERS = 2;
  private static final int FEATURES = 7;
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = Sessions.of(Sessions.Shape.LOCAL);
  }

  /** Makes a row's features of random numbers. */
  private interface Features {
    Vector of(Random random, double[] x);
  }

  /** Rows in a fixed order, in as many partitions as there are workers. */
  private static Dataset<Row> rows(int count, Features features) {
    Random random = new Random(5);
    List<Row> rows = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      double[] x = random.doubles(FEATURES, -1, 1).toArray();
      double label = x[0] + x[1] * x[2] > 0.1 ? 1 : 0;
      Vector vector = features.of(random, x);
      int query = i / 20;
      rows.add(RowFactory.create(label, 0.5 + query % 3, 0.1 * x[3], query, vector));
    }
    StructType schema =
        new StructType()
            .add("label", DataTypes.DoubleType)
            .add("weight", DataTypes.DoubleType)
            .add("margin", DataTypes.DoubleType)
            .add("query", DataTypes.IntegerType)
            .add("features", new VectorUDT());
    return session
        .createDataFrame(rows, schema)
        .repartitionByRange(WORKERS, functions.col("query"));
  }

  private static XGBoostClassifier classifier() {
    XGBoostClassifier stock = new XGBoostClassifier();
    stock.setLabelCol("label");
    stock.setFeaturesCol("features");
    stock.setNumWorkers(WORKERS);
    stock.setNumRound(4);
    stock.setNthread(1);
    stock.setMaxDepth(3);
    stock.setSeed(7);
    return stock;
  }

  private static void compare(Dataset<Row> rows, Consumer<XGBoostClassifier> settings)
      throws Exception {
    XGBoostClassifier stock = classifier();
    stock.setSeedPerIteration(true);
    settings.accept(stock);
    Dataset<Row> kept = rows.cache();
    XGBoostClassificationModel expected = stock.fit(kept);
    XGBoostClassificationModel seen =
        new RejoinEstimator<XGBoostClassificationModel>(stock).fit(kept);
    kept.unpersist();
    assertArrayEquals(bytes(expected), bytes(seen));
  }

  private static byte[] bytes(XGBoostClassificationModel model) throws Exception {
    return model.nativeBooster().toByteArray("ubj");
  }

  @Test
  void dense_vectors() throws Exception {
    compare(rows(2000, (random, x) -> Vectors.dense(x)), stock -> {});
  }

  @Test
  void dense_vectors_with_values_that_are_missing() throws Exception {
    Features some =
        (random, x) -> {
          x[random.nextInt(FEATURES)] = Double.NaN;
          x[random.nextInt(FEATURES)] = 0;
          x[random.nextInt(FEATURES)] = -0.0;
          return Vectors.dense(x);
        };
    compare(rows(2000, some), stock -> {});
    compare(rows(2000, some), stock -> stock.setMissing(0f));
  }

  @Test
  void dense_vectors_with_a_missing_value_of_their_own() throws Exception {
    Features some =
        (random, x) -> {
          x[random.nextInt(FEATURES)] = -999;
          return Vectors.dense(x);
        };
    compare(rows(2000, some), stock -> stock.setMissing(-999f));
  }

  @Test
  void sparse_vectors_whose_zeros_are_missing_and_such_whose_zeros_are_values() throws Exception {
    Features some =
        (random, x) -> {
          int first = random.nextInt(FEATURES - 1);
          return Vectors.sparse(
              FEATURES, new int[] {first, FEATURES - 1}, new double[] {x[0], x[first]});
        };
    compare(rows(2000, some), stock -> stock.setMissing(0f));
    compare(rows(2000, some), stock -> stock.setMissing(-999f));
    compare(rows(2000, some), stock -> stock.setMissing(Float.NaN));
  }

  @Test
  void dense_and_sparse_vectors_among_each_other() throws Exception {
    Features some =
        (random, x) ->
            random.nextBoolean()
                ? Vectors.dense(x)
                : Vectors.sparse(FEATURES, new int[] {1, 4}, new double[] {x[1], 0});
    compare(rows(2000, some), stock -> stock.setMissing(0f));
    compare(rows(2000, some), stock -> stock.setMissing(-999f));
  }

  @Test
  void vectors_whose_last_columns_have_a_value_in_no_row() throws Exception {
    Features some =
        (random, x) -> Vectors.sparse(FEATURES + 900, new int[] {0, 2}, new double[] {x[0], x[2]});
    compare(rows(2000, some), stock -> stock.setMissing(0f));
    compare(
        rows(
            2000,
            (random, x) -> {
              x[FEATURES - 1] = Double.NaN;
              return Vectors.dense(x);
            }),
        stock -> {});
  }

  @Test
  void weights_and_margins() throws Exception {
    compare(
        rows(2000, (random, x) -> Vectors.dense(x)),
        stock -> {
          stock.setWeightCol("weight");
          stock.setBaseMarginCol("margin");
        });
  }

  @Test
  void an_evaluation_set_with_early_stopping() throws Exception {
    Dataset<Row> evaluation = rows(500, (random, x) -> Vectors.dense(x)).cache();
    compare(
        rows(2000, (random, x) -> Vectors.dense(x)),
        stock -> {
          stock.setEvalDataset(evaluation);
          stock.setNumEarlyStoppingRounds(2);
        });
  }

  @Test
  void features_that_are_columns_or_an_array_with_names_and_categories() throws Exception {
    Dataset<Row> columns =
        rows(2000, (random, x) -> Vectors.dense(x))
            .selectExpr(
                "label",
                "cast(margin * 100 as float) a",
                "float(query % 4) b",
                "weight c",
                "if(query % 5 = 0, float('nan'), float(query)) d")
            .coalesce(WORKERS);
    compare(
        columns,
        stock -> {
          stock.clear(stock.featuresCol());
          stock.setFeaturesCol(new String[] {"a", "b", "c", "d"});
        });
    compare(
        columns.selectExpr("label", "array(a, b, float(c), d) features"),
        stock -> {
          stock.setFeatureNames(new String[] {"first", "second", "third", "fourth"});
          stock.setFeatureTypes(new String[] {"q", "c", "q", "q"});
        });
  }

  @Test
  void columns_in_which_values_are_null_as_zeros_that_are_values_or_missing() throws Exception {
    Dataset<Row> columns =
        rows(2000, (random, x) -> Vectors.dense(x))
            .selectExpr("label", "if(query % 5 = 0, null, float(margin)) a", "weight b")
            .coalesce(WORKERS);
    compare(
        columns,
        stock -> {
          stock.clear(stock.featuresCol());
          stock.setFeaturesCol(new String[] {"a", "b"});
        });
    compare(
        columns,
        stock -> {
          stock.clear(stock.featuresCol());
          stock.setFeaturesCol(new String[] {"a", "b"});
          stock.setMissing(0f);
        });
  }

  @Test
  void more_rows_than_a_page_and_than_a_batch_of_xgboost4j() throws Exception {
    compare(
        session
            .range(0, 400_000, 1, WORKERS)
            .selectExpr("double(id * 7919 % 13 > 5) label", "array(float(id % 101)) features"),
        stock -> stock.setMaxDepth(2));
  }

  /** A rank that comes back, and up to XGBoost 3.2 every one, goes on with a loaded model. */
  @Test
  void classes_with_a_base_score_though_a_rank_dies() throws Exception {
    int rounds = 5;
    XGBoostClassifier stock = classifier();
    stock.setSeedPerIteration(true);
    stock.setNumRound(rounds);
    stock.setObjective("multi:softprob");
    stock.setNumClass(3);
    stock.setBaseScore(0.5);
    Dataset<Row> rows =
        rows(2000, (random, x) -> Vectors.dense(x))
            .withColumn("label", functions.expr("label + query % 2"))
            .cache();
    RejoinRun run =
        new RejoinRun(session, Recipe.MULTICLASS, WORKERS, rounds)
            .estimator(stock)
            .data(rows)
            .setting("spark.rejoin.checkpoint.rounds", "2")
            .fault(Fault.of(1).version(1, 1_000).throwError());
    Outcome outcome = Deadline.within(LIMIT, "ours", Sessions.cluster(), run::train);
    assertEquals(1, run.fired());
    assertEquals(Digest.of(stock.fit(rows)), outcome.digest());
    rows.unpersist();
  }

  @Test
  void groups_with_weights() throws Exception {
    XGBoostRanker stock = new XGBoostRanker();
    stock.setLabelCol("label");
    stock.setFeaturesCol("features");
    stock.setGroupCol("query");
    stock.setWeightCol("weight");
    stock.setNumWorkers(WORKERS);
    stock.setNumRound(4);
    stock.setNthread(1);
    stock.setSeed(7);
    stock.setSeedPerIteration(true);
    Dataset<Row> rows = rows(2000, (random, x) -> Vectors.dense(x)).cache();
    byte[] expected = stock.fit(rows).nativeBooster().toByteArray("ubj");
    XGBoostRankerModel seen = new RejoinEstimator<XGBoostRankerModel>(stock).fit(rows);
    assertArrayEquals(expected, seen.nativeBooster().toByteArray("ubj"));
  }
}
