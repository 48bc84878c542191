package io.rejoin.it.bench;

import io.rejoin.it.Digest;
import io.rejoin.it.Executors;
import io.rejoin.it.Processes;
import io.rejoin.spark.RejoinEstimator;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Fits with both estimators in turn, as a Spark driver whose session is set up by system
 * properties. In a process of its own, because XGBoost's tracker prints every round.
 */
final class FitWork implements Work {
  private static final long serialVersionUID = 1L;

  /** How long a fit took, and the sum of what each executor had at most while it ran. */
  record Fit(double millis, double megabytes) implements Serializable {}

  private final Shape shape;
  private final int present;
  private final String folder;
  private final String mark;
  private final int pairs;
  private String expected;

  /**
   * On rows of a shape.
   *
   * @param present how many features of a sparse row are present; 0 for dense rows
   * @param folder where the rows are, or are written to if they aren't
   * @param mark of the cluster's processes
   */
  FitWork(Shape shape, int present, String folder, String mark, int pairs) {
    this.shape = shape;
    this.present = present;
    this.folder = folder;
    this.mark = mark;
    this.pairs = pairs;
  }

  @Override
  public Serializable run() throws Exception {
    SparkSession spark = SparkSession.builder().appName("rejoin bench").getOrCreate();
    try {
      Executors.await(spark, shape.world());
      if (!Files.exists(Path.of(folder, "_SUCCESS"))) {
        rows(spark).write().mode(SaveMode.Overwrite).parquet(folder);
      }
      Dataset<Row> rows = spark.read().parquet(folder);
      return Pairs.of(
          pairs,
          () -> measured(() -> new RejoinEstimator<>(estimator()).fit(rows)),
          () -> measured(() -> estimator().fit(rows)));
    } finally {
      spark.stop();
    }
  }

  private Fit measured(Supplier<Model<?>> fit) throws IOException {
    PeakMemory.forget(executors());
    long start = System.nanoTime();
    String digest = Digest.of(fit.get());
    double millis = (System.nanoTime() - start) / 1e6;
    if (!digest.equals(expected == null ? expected = digest : expected)) {
      throw new IllegalStateException("the models differ: " + expected + " and " + digest);
    }
    Fit measured = new Fit(millis, PeakMemory.megabytes(executors()));
    System.out.println(measured);
    return measured;
  }

  private LongStream executors() {
    return Processes.marked(mark).stream()
        .filter(process -> process.command().contains("--executor-id"))
        .mapToLong(Processes.Found::pid);
  }

  private Dataset<Row> rows(SparkSession spark) {
    Shape wanted = shape;
    int sparse = present;
    List<Integer> parts = IntStream.range(0, shape.world()).boxed().toList();
    StructType schema =
        new StructType()
            .add("label", DataTypes.DoubleType)
            .add("features", SQLDataTypes.VectorType());
    return spark.createDataFrame(
        new JavaSparkContext(spark.sparkContext())
            .parallelize(parts, shape.world())
            .flatMap(part -> sparse > 0 ? sparse(wanted, part, sparse) : dense(wanted.part(part))),
        schema);
  }

  private static Iterator<Row> dense(SyntheticRows part) {
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

  private static Iterator<Row> sparse(Shape shape, int part, int present) {
    SplittableRandom random = new SplittableRandom(part);
    return IntStream.range(0, shape.rows() / shape.world())
        .mapToObj(
            row -> {
              int[] columns =
                  random.ints(2L * present, 0, shape.columns()).sorted().distinct().toArray();
              double[] values = random.doubles(columns.length, 0.5, 1.5).toArray();
              long low = IntStream.of(columns).filter(one -> one < shape.columns() / 3).count();
              double label = 3 * low + random.nextDouble() * present > 2.5 * present ? 1 : 0;
              return RowFactory.create(label, Vectors.sparse(shape.columns(), columns, values));
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
    if (present > 0) {
      estimator.setMissing(0f);
    }
    estimator.set("labelCol", "label");
    estimator.set("featuresCol", "features");
    return estimator;
  }
}
