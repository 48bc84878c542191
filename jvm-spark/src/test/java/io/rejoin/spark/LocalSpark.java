package io.rejoin.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** A session in local mode and small data for tests. */
final class LocalSpark {
  private static final int FEATURES = 6;

  private LocalSpark() {}

  static SparkSession start(String master) {
    SparkSession session =
        SparkSession.builder()
            .master(master)
            .appName("rejoin-test")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.local.dir", System.getProperty("java.io.tmpdir"))
            .getOrCreate();
    session.sparkContext().setLogLevel("WARN");
    return session;
  }

  /** Rows with label, weight, group and features; two classes. */
  static Dataset<Row> rows(SparkSession session, int count, long seed) {
    Random random = new Random(seed);
    List<Row> rows = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      double[] x = random.doubles(FEATURES, -1, 1).toArray();
      double z = x[0] + x[1] * x[2] - 0.5 * x[3] + 0.2 * random.nextGaussian();
      rows.add(RowFactory.create(z > 0 ? 1.0 : 0.0, 0.5 + i % 3, i / 20, Vectors.dense(x)));
    }
    return session.createDataFrame(rows, schema());
  }

  /** Rows whose vectors are sparse. */
  static Dataset<Row> sparseRows(SparkSession session, int count) {
    List<Row> rows = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      Vector x = Vectors.sparse(FEATURES, new int[] {i % FEATURES}, new double[] {1 + i % 7});
      rows.add(RowFactory.create(i % 2 * 1.0, 1.0, i / 20, x));
    }
    return session.createDataFrame(rows, schema());
  }

  static XGBoostClassifier classifier(int workers, int rounds) {
    XGBoostClassifier classifier = new XGBoostClassifier();
    classifier.setLabelCol("label");
    classifier.setFeaturesCol("features");
    classifier.setNumWorkers(workers);
    classifier.setNumRound(rounds);
    classifier.setNthread(1);
    classifier.setMaxDepth(3);
    classifier.setSeed(7);
    return classifier;
  }

  private static StructType schema() {
    return new StructType()
        .add("label", DataTypes.DoubleType)
        .add("weight", DataTypes.DoubleType)
        .add("group", DataTypes.IntegerType)
        .add("features", new VectorUDT());
  }
}
