package io.rejoin.it.flink;

import io.rejoin.spark.RejoinEstimator;
import io.rejoin.xgboost.XgboostVersion;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import ml.dmlc.xgboost4j.scala.spark.XGBoostEstimator;
import ml.dmlc.xgboost4j.scala.spark.XGBoostModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRanker;
import ml.dmlc.xgboost4j.scala.spark.XGBoostRegressor;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.Predictor;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * A Spark application of its own that trains each {@link XgboostKind} on the rows that {@link
 * XgboostJob} trains on in Flink, those of split i as partition i, so at the same rank.
 */
public final class SparkModels {
  private static final StructType COLUMNS =
      new StructType()
          .add("features", SQLDataTypes.VectorType())
          .add("label", DataTypes.DoubleType)
          .add("grade", DataTypes.IntegerType)
          .add("weight", DataTypes.DoubleType)
          .add("query", DataTypes.LongType)
          .add("held", DataTypes.BooleanType);

  private SparkModels() {}

  /**
   * Arguments: a folder, where each model is a file with the name of its kind, and {@code version}
   * tells which XGBoost has trained them; how many rounds; the lengths of the splits.
   */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    int rounds = Integer.parseInt(arguments[1]);
    long[] lengths = Arrays.stream(arguments).skip(2).mapToLong(Long::parseLong).toArray();
    try (SparkSession spark =
        SparkSession.builder()
            .master("local[" + lengths.length + ",1]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .getOrCreate()) {
      Dataset<Row> rows = spark.createDataFrame(rows(spark, lengths), COLUMNS);
      for (XgboostKind kind : XgboostKind.values()) {
        Files.write(folder.resolve(kind.name()), train(kind, rows, lengths.length, rounds));
      }
    }
    Files.writeString(folder.resolve("version"), XgboostVersion.loaded().toString());
  }

  private static JavaRDD<Row> rows(SparkSession spark, long[] lengths) {
    List<Integer> splits = IntStream.range(0, lengths.length).boxed().toList();
    return JavaSparkContext.fromSparkContext(spark.sparkContext())
        .parallelize(new ArrayList<>(splits), lengths.length)
        .flatMap(
            split ->
                LongStream.range(0, lengths[split])
                    .mapToObj(number -> row(XgboostRow.of(split, number)))
                    .iterator());
  }

  private static Row row(XgboostRow row) {
    return RowFactory.create(
        Vectors.dense(row.features()),
        row.label(),
        row.grade(),
        row.weight(),
        row.query(),
        row.held());
  }

  private static byte[] train(XgboostKind kind, Dataset<Row> rows, int workers, int rounds)
      throws Exception {
    scala.collection.immutable.Map<String, Object> parameters =
        scala.collection.immutable.Map$.MODULE$.empty();
    for (Map.Entry<String, Object> one : kind.parameters.entrySet()) {
      parameters = parameters.$plus(new Tuple2<>(one.getKey(), one.getValue()));
    }
    Predictor<?, ?, ?> stock;
    Dataset<Row> trained = rows;
    switch (kind) {
      case CLASSIFICATION:
        XGBoostClassifier classifier = new XGBoostClassifier(parameters);
        classifier.setMissing(0);
        stock = classifier.setLabelCol("label");
        break;
      case REGRESSION:
        XGBoostRegressor regressor = new XGBoostRegressor(parameters);
        regressor.setWeightCol("weight");
        regressor.setEvalDataset(rows.where(functions.col("held")));
        regressor.setNumEarlyStoppingRounds(XgboostKind.STOPPING_ROUNDS);
        stock = regressor.setLabelCol("grade");
        trained = rows.where(functions.not(functions.col("held")));
        break;
      default:
        XGBoostRanker ranker = new XGBoostRanker(parameters);
        ranker.setGroupCol("query");
        stock = ranker.setLabelCol("grade");
    }
    XGBoostEstimator<?, ?> settings = (XGBoostEstimator<?, ?>) stock;
    settings.setNumWorkers(workers);
    settings.setNumRound(rounds);
    settings.setNthread(1);
    Object model = new RejoinEstimator<>(stock).fit(trained);
    return ((XGBoostModel<?>) model).nativeBooster().booster().toByteArray("ubj");
  }
}
