package io.rejoin.it;

import example.KMeans;
import io.rejoin.Faults;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.spark.RejoinSpark;
import java.util.Arrays;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A Spark application of its own that trains the example's k-means with {@link RejoinSpark}, and
 * reports as {@link FitDriver} does. XGBoost is on no class path of it.
 */
public final class GangDriver {
  private GangDriver() {}

  /**
   * Arguments: workers, the CSV file, and for each training its fault rules as {@link Faults#parse}
   * reads them.
   */
  public static void main(String[] arguments) {
    int workers = Integer.parseInt(arguments[0]);
    SparkSession spark = SparkSession.builder().appName("rejoin k-means").getOrCreate();
    Executors.await(spark, workers);
    FitDriver.report("xgboost " + isThere("ml.dmlc.xgboost4j.java.Booster"));
    Dataset<Row> points =
        spark.read().option("header", true).option("inferSchema", true).csv(arguments[1]);
    for (String faults : Arrays.asList(arguments).subList(2, arguments.length)) {
      RejoinSpark.Options options =
          new RejoinSpark.Options()
              .faultsForTests(Faults.parse(faults))
              .eventListener(
                  event -> {
                    if (event.kind() == Kind.CAUGHT_UP) {
                      FitDriver.report("again " + event.number("rank"));
                    }
                  });
      double[] centers = RejoinSpark.train(points, workers, KMeans::train, options);
      FitDriver.report("model " + Arrays.hashCode(centers));
    }
    FitDriver.report(FitDriver.END);
    spark.stop();
  }

  private static boolean isThere(String name) {
    try {
      Class.forName(name);
      return true;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }
}
