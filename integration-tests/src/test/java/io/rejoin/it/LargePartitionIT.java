package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.spark.RejoinEstimator;
import java.util.Arrays;
import java.util.SplittableRandom;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Values of a partition that an {@code int} can't count. All but one in 200 are missing: XGBoost
 * takes 8 bytes for each other one, and what is to be seen is how they are addressed.
 */
@DisplayName("a partition of more than 2^31 values")
class LargePartitionIT {
  private static final int COLUMNS = 4_300;
  private static final int ROWS = 500_000;
  private static final int PRESENT = 20;

  @Test
  void gives_the_model_of_the_stock_estimator() throws Exception {
    assertTrue((long) COLUMNS * ROWS > Integer.MAX_VALUE);
    SparkSession session = Sessions.of(Sessions.Shape.LOCAL);
    StructType schema =
        new StructType().add("label", DataTypes.DoubleType).add("features", new VectorUDT());
    Dataset<Row> rows =
        session.createDataFrame(
            session.range(0, ROWS, 1, 1).toJavaRDD().map(LargePartitionIT::row), schema);
    XGBoostClassifier stock = new XGBoostClassifier();
    stock.setNumWorkers(1);
    stock.setNumRound(2);
    stock.setMaxDepth(3);
    stock.setMaxBins(16);
    byte[] expected = stock.fit(rows).nativeBooster().toByteArray("ubj");
    XGBoostClassificationModel seen =
        new RejoinEstimator<XGBoostClassificationModel>(stock).fit(rows);
    assertArrayEquals(expected, seen.nativeBooster().toByteArray("ubj"));
  }

  /** The label follows the last column, which is behind all that 32 bits can address. */
  private static Row row(Long number) {
    SplittableRandom random = new SplittableRandom(number);
    double[] values = new double[COLUMNS];
    Arrays.fill(values, Double.NaN);
    for (int i = 0; i < PRESENT; i++) {
      values[random.nextInt(COLUMNS)] = random.nextDouble();
    }
    double last = random.nextDouble();
    values[COLUMNS - 1] = last;
    return RowFactory.create(last > 0.5 ? 1.0 : 0.0, Vectors.dense(values));
  }
}
