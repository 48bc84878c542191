package io.rejoin.spark;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent;
import io.rejoin.settings.SettingValues;
import java.io.IOException;
import java.util.function.Consumer;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.types.StructType;

/**
 * Trains a stock {@code XGBoostClassifier}, {@code XGBoostRegressor} or {@code XGBoostRanker} so
 * that the death of an executor or a task costs no restart: Spark retries that task alone, it
 * rejoins the running training, and the model is, byte for byte, the one without the death. What
 * comes back is the stock model class.
 *
 * <pre>{@code
 * XGBoostClassifier stock = new XGBoostClassifier();
 * stock.setNumWorkers(3);
 * stock.setNumRound(100);
 * XGBoostClassificationModel model = new RejoinEstimator<>(stock).fit(train);
 * }</pre>
 *
 * <p>It stands wherever the stock estimator stands, in pipelines and cross validation too, with the
 * stock estimator's parameters (it has the same uid). Settings are Spark's, {@code spark.rejoin.*};
 * none is needed.
 */
public class RejoinEstimator<M extends Model<M>> extends Estimator<M> implements MLWritable {
  private static final long serialVersionUID = 1L;

  private final Estimator<M> stock;
  private transient Consumer<TrainingEvent> eventListener;
  private transient Faults faults = Faults.none();

  /**
   * Around a stock estimator, which is not changed.
   *
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for anything else; INCOMPATIBLE for an XGBoost
   *     that isn't supported
   */
  public RejoinEstimator(Estimator<M> stock) {
    StockEstimator.check(stock);
    this.stock = stock;
  }

  /** The stock estimator that this one was made of; its parameters are the training's. */
  public Estimator<M> stock() {
    return stock;
  }

  /**
   * A function that gets all events on the driver, in order, on a thread of Rejoin's own; null for
   * none. A slow one holds up nothing, but may get the last events after the fit has returned. Not
   * saved.
   */
  public RejoinEstimator<M> setEventListener(Consumer<TrainingEvent> listener) {
    this.eventListener = listener;
    return this;
  }

  /**
   * Faults on demand. For tests and demonstrations only: a model must not depend on them. Not
   * saved.
   */
  public RejoinEstimator<M> setFaultsForTests(Faults faults) {
    this.faults = faults;
    return this;
  }

  /**
   * Trains.
   *
   * @throws io.rejoin.RejoinException with the reason when it can't be done; bad parameters are
   *     refused as the stock estimator says it
   */
  @Override
  public M fit(Dataset<?> dataset) {
    Surroundings.refuseConnect(dataset);
    SettingValues settings = SparkSettings.ofXgboost(dataset.sparkSession());
    Listeners listeners = Listeners.of(settings, eventListener);
    Surroundings surroundings = new Surroundings(dataset.sparkSession().sparkContext(), 1);
    // All of it each time: the stock estimator looks at the labels before it trains.
    return new Beginnings(settings, surroundings, faults)
        .train(
            injected ->
                new Fit<>(this, stock, extractParamMap(), dataset, listeners, injected)
                    .run(settings));
  }

  @Override
  public RejoinEstimator<M> copy(ParamMap extra) {
    return new RejoinEstimator<>(StockEstimator.copy(stock, extractParamMap(extra)))
        .setEventListener(eventListener)
        .setFaultsForTests(faults == null ? Faults.none() : faults);
  }

  @Override
  public StructType transformSchema(StructType schema) {
    return stock.transformSchema(schema);
  }

  /** The stock estimator's, so that its parameters count as this one's. */
  @Override
  public String uid() {
    return stock.uid();
  }

  /** The stock estimator's parameters. */
  @Override
  public Param<?>[] params() {
    return stock.params();
  }

  @Override
  public MLWriter write() {
    return new RejoinEstimatorStorage.Writer(this);
  }

  @Override
  public void save(String path) throws IOException {
    write().save(path);
  }

  /** Reads what {@link #write} wrote. */
  public static MLReader<RejoinEstimator<?>> read() {
    return new RejoinEstimatorStorage.Reader();
  }

  /** Reads what {@link #save} wrote. */
  public static RejoinEstimator<?> load(String path) {
    return read().load(path);
  }
}
