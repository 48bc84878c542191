package io.rejoin.it.bench;

import io.rejoin.it.Digest;
import io.rejoin.it.Executors;
import io.rejoin.spark.RejoinEstimator;
import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Fits with both estimators in turn, as a Spark driver whose session is set up by system
 * properties. In a process of its own, because XGBoost's tracker prints every round.
 */
final class FitWork implements Work {
  private static final long serialVersionUID = 1L;

  private final Shape shape;
  private final int pairs;
  private String expected;

  FitWork(Shape shape, int pairs) {
    this.shape = shape;
    this.pairs = pairs;
  }

  @Override
  public Serializable run() throws Exception {
    SparkSession spark = SparkSession.builder().appName("rejoin bench").getOrCreate();
    try {
      Executors.await(spark, shape.world());
      Dataset<Row> rows = rows(spark).cache();
      rows.count();
      return Pairs.of(
          pairs,
          () -> millis(() -> new RejoinEstimator<>(estimator()).fit(rows)),
          () -> millis(() -> estimator().fit(rows)));
    } finally {
      spark.stop();
    }
  }

  private double millis(Supplier<Model<?>> fit) {
    long start = System.nanoTime();
    String digest = Digest.of(fit.get());
    double millis = (System.nanoTime() - start) / 1e6;
    if (!digest.equals(expected == null ? expected = digest : expected)) {
      throw new IllegalStateException("the models differ: " + expected + " and " + digest);
    }
    return millis;
  }

  private Dataset<Row> rows(SparkSession spark) {
    Shape wanted = shape;
    List<Integer> parts = IntStream.range(0, shape.world()).boxed().toList();
    StructType schema =
        new StructType()
            .add("label", DataTypes.DoubleType)
            .add("features", SQLDataTypes.VectorType());
    return spark.createDataFrame(
        new JavaSparkContext(spark.sparkContext())
            .parallelize(parts, shape.world())
            .flatMap(part -> vectors(wanted.part(part))),
        schema);
  }

  private static Iterator<Row> vectors(SyntheticRows part) {
    return IntStream.range(0, part.rows())
        .mapToObj(
            row -> {
              double[] values = new double[part.columns()];
              for (int column = 0; column < values.length; column++) {
                values[column] = part.features()[row * part.columns() + column];
              }
              return RowFactory.create((double) part.labels()[row], Vectors.dense(values));
            })
        .iterator();
  }

  private XGBoostClassifier estimator() {
    XGBoostClassifier estimator = new XGBoostClassifier();
    estimator.setNumWorkers(shape.world());
    estimator.setNumRound(shape.rounds());
    estimator.setNthread(1);
    estimator.setMaxDepth(Shape.DEPTH);
    estimator.setEta(0.2);
    estimator.setSeedPerIteration(true);
    estimator.set("labelCol", "label");
    estimator.set("featuresCol", "features");
    return estimator;
  }
}
