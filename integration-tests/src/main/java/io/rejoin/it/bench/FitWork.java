package io.rejoin.it.bench;

import io.rejoin.it.Digest;
import io.rejoin.it.Executors;
import io.rejoin.spark.RejoinEstimator;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
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

  FitWork(Shape shape, int pairs) {
    this.shape = shape;
    this.pairs = pairs;
  }

  /** Milliseconds of each pair's two fits, and whether their models were the same. */
  record Pair(double ours, double stock, boolean same) implements Serializable {}

  @Override
  public Serializable run() {
    SparkSession spark = SparkSession.builder().appName("rejoin bench").getOrCreate();
    try {
      Executors.await(spark, shape.world());
      Dataset<Row> rows = rows(spark).cache();
      rows.count();
      ArrayList<Pair> all = new ArrayList<>();
      for (int pair = -1; pair < pairs; pair++) {
        String[] digests = new String[2];
        double[] millis = new double[2];
        for (int turn = 0; turn < 2; turn++) {
          // Ours is 0.
          int which = Figure.oursFirst(pair) ? turn : 1 - turn;
          long start = System.nanoTime();
          Model<?> model =
              which == 0 ? new RejoinEstimator<>(estimator()).fit(rows) : estimator().fit(rows);
          millis[which] = (System.nanoTime() - start) / 1e6;
          digests[which] = Digest.of(model);
        }
        if (pair >= 0) {
          all.add(new Pair(millis[0], millis[1], digests[0].equals(digests[1])));
        }
      }
      return all;
    } finally {
      spark.stop();
    }
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
