package io.rejoin.spark;

import io.rejoin.Faults;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.Serializable;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.types.StructType;

/**
 * Any training in lock step on the tasks of a plain stage, so that the death of an executor or a
 * task costs no restart: Spark retries that task alone, it rejoins the running training, and the
 * model is, byte for byte, the one without the death.
 *
 * <pre>{@code
 * double[] mean = RejoinSpark.train(numbers, 3, (ranks, rows) -> {
 *   double[] sums = {0, 0};
 *   for (double x : rows) { sums[0] += x; sums[1]++; }
 *   ranks.load();                                    // see RankFunction for loops with checkpoints
 *   ranks.allreduce(sums, Reduction.SUM);
 *   return new double[] {sums[0] / sums[1]};
 * });
 * }</pre>
 *
 * <p>Settings are Spark's, {@code spark.rejoin.*}; none is needed. XGBoost needn't be on the class
 * path.
 */
public final class RejoinSpark {
  private RejoinSpark() {}

  /** {@link #train(Dataset, int, RankFunction, Options)} without options. */
  public static <T, M extends Serializable> M train(
      Dataset<T> dataset, int workers, RankFunction<T, M> function) {
    return train(dataset, workers, function, new Options());
  }

  /**
   * Trains. The data set is divided among the workers (by {@code coalesce} where it has more
   * partitions, by {@code repartition} where it has fewer), and what each one gets is stored once,
   * in copies on several executors, so that a restarted rank reads the same rows in the same order.
   *
   * @param workers how many tasks train; all of them run at once, a slot each. How many it may
   *     become while they train, {@code spark.rejoin.workers.min} and {@code .max} say
   * @param function what each rank does, and how it goes on after a death
   * @return the model that all ranks have returned
   * @throws io.rejoin.RejoinException with the reason when it can't be done: BAD_ARGUMENT and
   *     INCOMPATIBLE before anything was started; MISMATCH where the ranks' models differ or a rank
   *     did not repeat itself; UNRECOVERABLE after more deaths than Spark retries; INPUT_LOST when
   *     lost rows came back as others, and the training may not begin again
   */
  public static <T, M extends Serializable> M train(
      Dataset<T> dataset, int workers, RankFunction<T, M> function, Options options) {
    Surroundings.refuseConnect(dataset);
    SettingValues settings = SparkSettings.of(dataset.sparkSession());
    Listeners listeners = Listeners.of(settings, options.eventListener);
    NativeLibrary.logLevel(settings.text(CommonSettings.LOG_LEVEL));
    Surroundings surroundings = new Surroundings(dataset.sparkSession().sparkContext(), workers);
    surroundings.check("the number of workers");
    refuseUnsendable(function);
    WorldBounds bounds =
        WorldBounds.of(
            settings,
            surroundings.context().getConf(),
            workers,
            "the number of workers",
            surroundings.membersSetting());
    return new Beginnings(settings, surroundings, options.faults)
        .train(
            injected ->
                train(
                    replanned(dataset),
                    surroundings,
                    bounds,
                    settings,
                    function,
                    listeners,
                    injected));
  }

  /** One training, from the data set to the model. */
  private static <T, M extends Serializable> M train(
      Dataset<T> dataset,
      Surroundings surroundings,
      WorldBounds bounds,
      SettingValues settings,
      RankFunction<T, M> function,
      Listeners listeners,
      Faults faults) {
    SparkContext context = surroundings.context();
    int workers = surroundings.workers();
    StructType schema = dataset.schema();
    try (GangAdmission.AdmittedGang admittedGang =
        GangAdmission.of(context).admit(context, bounds, settings)) {
      Optional<DurableJob> durable =
          DurableJob.of(context, settings, workers, List.of(), List.of(dataset), false);
      InputPreparation preparation =
          new InputPreparation(settings, dataset.sparkSession(), durable);
      byte[] model =
          DurableJob.during(
              durable,
              () -> {
                try (PreparedInput input =
                    preparation.prepare(
                        "training",
                        () -> PagedRows.ofAnyKind(divided(dataset, workers)),
                        workers)) {
                  List<PreparedInput> inputs = Collections.singletonList(input);
                  DurableFolder folder = DurableJob.checkpoints(durable, inputs);
                  return new GangJob(
                          surroundings, admittedGang, settings, listeners, faults, folder)
                      .run(
                          preparation.frame(input, schema).as(dataset.encoder()).toJavaRDD().rdd(),
                          inputs,
                          new FunctionProgram<>(function, workers, folder));
                }
              });
      return ModelBytes.read(model);
    }
  }

  /** Before any work: Spark would find it only when the gang starts. */
  private static void refuseUnsendable(RankFunction<?, ?> function) {
    try {
      ModelBytes.write(function);
    } catch (RejoinException e) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the function can't be sent to executors, because something that it uses can't be"
              + " serialized: "
              + e.getCause(),
          e);
    }
  }

  /**
   * The same data set with nothing computed of it yet, so that no shuffle file of lost rows is left
   * among those of new ones, and no stage that was ended with an earlier fit: adaptive execution
   * would wait for that one for ever. What the user has cached stays.
   */
  static <T> Dataset<T> replanned(Dataset<T> dataset) {
    return dataset.as(dataset.encoder());
  }

  /** The data set in as many partitions as workers. */
  static <T> Dataset<T> divided(Dataset<T> dataset, int workers) {
    // Of the very plan that is run if they are as many as workers: to know them, adaptive execution
    // runs the stages behind a shuffle, and would run those of another plan once more.
    int partitions =
        InputPreparation.ownReason(
            dataset.sparkSession().sparkContext(),
            () -> dataset.queryExecution().toRdd().getNumPartitions());
    if (partitions == workers) {
      return dataset;
    }
    return partitions > workers ? dataset.coalesce(workers) : dataset.repartition(workers);
  }

  /** What else may be said of a training. */
  public static final class Options {
    private Consumer<TrainingEvent> eventListener;
    private Faults faults = Faults.none();

    /**
     * A function that gets all events on the driver, in order, on a thread of Rejoin's own. A slow
     * one holds up nothing, but may get the last events after the training has returned.
     */
    public Options eventListener(Consumer<TrainingEvent> listener) {
      this.eventListener = listener;
      return this;
    }

    /** Faults on demand. For tests and demonstrations only: a model must not depend on them. */
    public Options faultsForTests(Faults injected) {
      this.faults = injected;
      return this;
    }
  }
}
