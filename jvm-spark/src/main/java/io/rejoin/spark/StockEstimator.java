package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.xgboost.TrainingResult;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import ml.dmlc.xgboost4j.java.IEvaluation;
import ml.dmlc.xgboost4j.java.IObjective;
import ml.dmlc.xgboost4j.java.XGBoost;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.Booster;
import ml.dmlc.xgboost4j.scala.spark.ColumnIndices;
import ml.dmlc.xgboost4j.scala.spark.PluginUtils$;
import ml.dmlc.xgboost4j.scala.spark.RuntimeParams;
import ml.dmlc.xgboost4j.scala.spark.XGBoostEstimator;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary;
import ml.dmlc.xgboost4j.scala.spark.XGBoostTrainingSummary$;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.Predictor;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.Params;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;

/**
 * A stock XGBoost estimator, taken apart into the steps of its fit. The steps are private to its
 * own package in Scala and public in bytecode, the same from 3.0 to 3.4. It is always our own copy,
 * so nothing is changed for the user.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class StockEstimator {
  private static final Set<String> OF_THE_TRACKER =
      Set.of("rabitTrackerHostIp", "rabitTrackerPort", "rabitTrackerTimeout");

  private final Predictor predictor;
  private final XGBoostEstimator estimator;

  private StockEstimator(Predictor predictor) {
    this.predictor = predictor;
    this.estimator = (XGBoostEstimator) (Object) predictor;
  }

  /** A copy of a stock estimator with these parameters, to be taken apart. */
  static StockEstimator of(Estimator<?> stock, ParamMap extra) {
    return new StockEstimator((Predictor) copy(stock, extra));
  }

  /**
   * Refuses what is not a stock XGBoost estimator.
   *
   * @throws RejoinException BAD_ARGUMENT with the class that was seen
   */
  static void check(Estimator<?> stock) {
    if (!(stock instanceof Predictor) || !((Object) stock instanceof XGBoostEstimator)) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "expected an XGBoostClassifier, XGBoostRegressor or XGBoostRanker of"
              + " ml.dmlc.xgboost4j.scala.spark, not "
              + (stock == null ? "null" : stock.getClass().getName()));
    }
  }

  /**
   * A copy; unlike the stock one it keeps the evaluation set, which is a field and not a parameter.
   */
  static <M extends Model<M>> Estimator<M> copy(Estimator<M> stock, ParamMap extra) {
    Estimator<M> copy = stock.copy(extra);
    Option<Dataset<?>> evaluation = ((XGBoostEstimator) (Object) stock).getEvalDataset();
    if (evaluation.isDefined()) {
      ((XGBoostEstimator) (Object) copy).setEvalDataset(evaluation.get());
    }
    return copy;
  }

  /**
   * What the stock fit does first: label and weight as doubles, schema and parameters checked, the
   * objective inferred.
   */
  Dataset<?> validated(Dataset<?> dataset) {
    predictor.transformSchema(dataset.schema());
    Dataset<?> cast = asDouble(dataset, predictor.getLabelCol());
    Param<String> weight = estimator.weightCol();
    if (predictor.isDefined(weight) && !predictor.getOrDefault(weight).isEmpty()) {
      cast = asDouble(cast, predictor.getOrDefault(weight));
    }
    estimator.validate(cast);
    return cast;
  }

  /** Whether RAPIDS' plugin would take over. */
  boolean wantsGpu(Dataset<?> dataset) {
    return PluginUtils$.MODULE$.isPluginEnabled(dataset) || runtime(true).runOnGpu();
  }

  /**
   * Columns selected, rows divided among the workers. Spark may compute a part of the data set for
   * it: the estimator asks how many partitions there are.
   */
  PagedRows prepare(Dataset<?> dataset) {
    Tuple2<Dataset<?>, ColumnIndices> prepared = estimator.preprocess(dataset);
    // An evaluation set's columns may be of other types than the training set's.
    return new PagedRows(prepared._1(), pages(prepared._1().schema(), prepared._2()));
  }

  /** As it was set; null if there is none. */
  Dataset<?> evaluationSet() {
    Option<Dataset<?>> evaluation = estimator.getEvalDataset();
    return evaluation.isDefined() ? evaluation.get() : null;
  }

  /** Whether rows are ranked within query groups. */
  boolean ranks() {
    return predictor.hasParam("groupCol") && predictor.isDefined(predictor.getParam("groupCol"));
  }

  RuntimeParams runtime(boolean local) {
    return estimator.getRuntimeParameters(local, estimator.getRuntimeParameters$default$2());
  }

  IObjective objective() {
    Option<?> objective = runtime(true).obj();
    return objective.isDefined() ? (IObjective) objective.get() : null;
  }

  IEvaluation evaluation() {
    Option<?> evaluation = runtime(true).eval();
    return evaluation.isDefined() ? (IEvaluation) evaluation.get() : null;
  }

  /** XGBoost's own parameters by its own names. */
  Map<String, Object> parameters() {
    Map<String, Object> parameters = new HashMap<>();
    scala.collection.immutable.Map<String, Object> stock = estimator.getXGBoostParams();
    scala.collection.Iterator<Tuple2<String, Object>> entries = stock.iterator();
    while (entries.hasNext()) {
      Tuple2<String, Object> entry = entries.next();
      if (entry._2() != null) {
        parameters.put(entry._1(), entry._2().toString());
      }
    }
    return parameters;
  }

  /** All parameters that the model may depend on, by name; of a function, its class. */
  List<String> terms() {
    List<String> terms = new ArrayList<>();
    for (Param<?> param : predictor.params()) {
      if (predictor.isDefined(param) && !OF_THE_TRACKER.contains(param.name())) {
        Object value = predictor.getOrDefault(param);
        boolean isArray = value != null && value.getClass().isArray();
        String text = isArray ? Arrays.deepToString(new Object[] {value}) : String.valueOf(value);
        boolean isFunction = value instanceof IObjective || value instanceof IEvaluation;
        terms.add(param.name() + "=" + (isFunction ? value.getClass().getName() : text));
      }
    }
    return terms;
  }

  private MatrixPages pages(StructType schema, ColumnIndices indices) {
    int features = (Integer) indices.featureId().get();
    boolean areVectors = schema.apply(features).dataType() instanceof VectorUDT;
    MatrixColumns columns =
        new MatrixColumns(indices.labelId(), features, areVectors)
            .weight(column(indices.weightId()))
            .margin(column(indices.marginId()))
            .group(column(indices.groupId()));
    return new MatrixPages(columns, missing() == 0);
  }

  /** How pages become matrices. */
  PageMatrices matrices() {
    return new PageMatrices(features());
  }

  /** How it describes features. */
  FeatureDescription features() {
    return new FeatureDescription(
        estimator.getFeatureNames(), estimator.getFeatureTypes(), missing());
  }

  /** Whether it is known what the zeros of sparse vectors are, because the missing value is set. */
  boolean takesSparse() {
    return predictor.isSet(predictor.getParam("missing"));
  }

  private float missing() {
    return (Float) predictor.getOrDefault(predictor.getParam("missing"));
  }

  private static OptionalInt column(Option<Object> index) {
    return index.isDefined() ? OptionalInt.of((Integer) index.get()) : OptionalInt.empty();
  }

  /** The stock model of what was trained. */
  <M extends Model<M>> M model(TrainingResult result, Estimator<M> parent) {
    try {
      XGBoostTrainingSummary summary =
          XGBoostTrainingSummary$.MODULE$.apply(scalaMap(result.metrics()));
      Booster booster = new Booster(XGBoost.loadModel(result.model()));
      Params model = (Params) estimator.createModel(booster, summary);
      ((Params) estimator).copyValues(model, ParamMap.empty());
      return ((M) model).setParent(parent);
    } catch (XGBoostError | IOException e) {
      throw new RejoinException(
          RejoinException.Code.INTERNAL,
          "the trained model can't be loaded on the driver: " + e.getMessage(),
          e);
    }
  }

  /** Only classes that have the same bytecode in 2.12 and 2.13. */
  private static scala.collection.immutable.Map<String, float[]> scalaMap(
      Map<String, float[]> metrics) {
    Iterator<Map.Entry<String, float[]>> entries = metrics.entrySet().iterator();
    Map.Entry<String, float[]> first = entries.next();
    if (!entries.hasNext()) {
      return new scala.collection.immutable.Map.Map1<>(first.getKey(), first.getValue());
    }
    Map.Entry<String, float[]> second = entries.next();
    return new scala.collection.immutable.Map.Map2<>(
        first.getKey(), first.getValue(), second.getKey(), second.getValue());
  }

  private static Dataset<Row> asDouble(Dataset<?> dataset, String column) {
    return dataset.withColumn(
        column,
        functions
            .col(column)
            .cast(DataTypes.DoubleType)
            .as(column, dataset.schema().apply(column).metadata()));
  }
}
