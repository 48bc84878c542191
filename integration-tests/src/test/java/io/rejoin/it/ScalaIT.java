package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.stream.Stream;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.tuning.CrossValidatorModel;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Runs {@code src/scala}, which the build compiles with the Scala of the set of versions at hand.
 * By name: Java is compiled first.
 */
@DisplayName("from Scala")
class ScalaIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int WORKERS = 3;
  private static final int ROUNDS = 4;

  private static Dataset<Row> rows() {
    return Recipe.BINARY.data(spark(), WORKERS);
  }

  private static SparkSession spark() {
    return Sessions.of(Sessions.Shape.LOCAL);
  }

  /** Calls a method of {@code FromScala} by its name. */
  private static Object scala(String name, Object... arguments) throws Exception {
    Class<?> type = Class.forName("io.rejoin.it.FromScala");
    Method method =
        Stream.of(type.getMethods())
            .filter(one -> one.getName().equals(name))
            .findFirst()
            .orElseThrow();
    return Deadline.within(
        LIMIT,
        name + " from Scala",
        Sessions.cluster(),
        () -> {
          try {
            return method.invoke(null, arguments);
          } catch (InvocationTargetException failed) {
            throw failed.getCause() instanceof Exception ? (Exception) failed.getCause() : failed;
          }
        });
  }

  private static XGBoostClassifier stock() throws Exception {
    return (XGBoostClassifier) scala("stock", WORKERS, ROUNDS);
  }

  /** What the stock estimator alone makes of the rows. */
  private static String expected(XGBoostClassifier stock) throws Exception {
    return Digest.of(Deadline.within(LIMIT, "stock", Sessions.cluster(), () -> stock.fit(rows())));
  }

  @Test
  void a_fit_gives_the_stock_model_in_its_own_class() throws Exception {
    XGBoostClassifier stock = stock();
    Object model = scala("fit", stock, rows());
    assertInstanceOf(XGBoostClassificationModel.class, model);
    assertEquals(expected(stock), Digest.of(model));
  }

  @Test
  void a_training_of_ones_own_gives_its_model() throws Exception {
    double mean = (double) scala("mean", "label", rows(), WORKERS);
    assertEquals(rows().selectExpr("avg(label)").first().getDouble(0), mean, 1e-12);
  }

  @Test
  void a_pipeline_gives_the_stock_model() throws Exception {
    XGBoostClassifier stock = stock();
    PipelineModel model =
        (PipelineModel) scala("pipeline", stock, Randhie.FEATURES, rows().drop("features"));
    assertEquals(expected(stock), Digest.of(model.stages()[1]));
  }

  @Test
  void a_cross_validation_finds_the_best_of_the_grid() throws Exception {
    CrossValidatorModel model =
        (CrossValidatorModel) scala("crossValidation", stock(), rows().cache());
    assertEquals(2, model.avgMetrics().length);
    int best = model.avgMetrics()[0] > model.avgMetrics()[1] ? 2 : 5;
    XGBoostClassifier stock = stock();
    stock.setMaxDepth(best);
    assertEquals(expected(stock), Digest.of(model.bestModel()));
  }
}
