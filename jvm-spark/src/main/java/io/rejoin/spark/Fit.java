package io.rejoin.spark;

import io.rejoin.Faults;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import io.rejoin.xgboost.CheckpointRhythm;
import io.rejoin.xgboost.TrainingResult;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostSettings;
import io.rejoin.xgboost.XgboostVersion;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import ml.dmlc.xgboost4j.scala.spark.RuntimeParams;
import org.apache.spark.SparkContext;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;

/** One training of a fit, from the check of its parameters to the stock model. */
final class Fit<M extends Model<M>> {
  private final RejoinEstimator<M> parent;
  private final StockEstimator stock;
  private final Dataset<?> dataset;
  private final Listeners listeners;
  private final Faults faults;

  Fit(
      RejoinEstimator<M> parent,
      Estimator<M> stock,
      ParamMap extra,
      Dataset<?> dataset,
      Listeners listeners,
      Faults faults) {
    this.parent = parent;
    this.stock = StockEstimator.of(stock, extra);
    this.dataset = dataset;
    this.listeners = listeners;
    this.faults = faults;
  }

  M run(SettingValues set) {
    SparkContext context = dataset.sparkSession().sparkContext();
    XgboostVersion version = XgboostVersion.loaded();
    StockMembers.check(version);
    NativeLibrary.logLevel(set.text(CommonSettings.LOG_LEVEL));
    // A classifier's labels may be computed for it, to know how many classes there are.
    Dataset<?> validated = InputPreparation.ownReason(context, () -> stock.validated(dataset));
    RuntimeParams runtime = stock.runtime(context.isLocal());
    StockTracker tracker = new StockTracker(runtime.trackerConf());
    Surroundings surroundings = tracker.host(new Surroundings(context, runtime.numWorkers()));
    surroundings.check("numWorkers");
    refuseGpu(validated);
    SettingValues settings = tracker.over(set);
    WorldBounds bounds =
        WorldBounds.of(
            settings,
            context.getConf(),
            runtime.numWorkers(),
            "numWorkers",
            surroundings.membersSetting());
    refuseChangingWorlds(settings);
    TrainingSpec.check(bounds.max(), stock.parameters());

    try (GangAdmission.AdmittedGang admittedGang =
        GangAdmission.of(context).admit(context, bounds, settings)) {
      return stock.model(
          train(settings, version, runtime, surroundings, admittedGang, validated), parent);
    }
  }

  /** Before any work. */
  private void refuseChangingWorlds(SettingValues settings) {
    if (stock.ranks()) {
      WorldBounds.refuse(
          settings,
          "rows of one query group have to stay with one worker; unset both for a ranker");
    }
    if (stock.evaluation() != null) {
      WorldBounds.refuse(
          settings,
          "with a custom evaluation each worker has scores of its own rows alone; unset both, or"
              + " use one of XGBoost's metrics");
    }
  }

  private void refuseGpu(Dataset<?> validated) {
    if (stock.wantsGpu(validated)) {
      throw bad(
          "training on GPUs is not supported; use the stock estimator, or device cpu and no GPU"
              + " plugin");
    }
  }

  private TrainingResult train(
      SettingValues settings,
      XgboostVersion version,
      RuntimeParams runtime,
      Surroundings surroundings,
      GangAdmission.AdmittedGang admitted,
      Dataset<?> validated) {
    List<Dataset<?>> datasets = new ArrayList<>();
    datasets.add(validated);
    Dataset<?> evaluation = stock.evaluationSet();
    if (evaluation != null) {
      datasets.add(evaluation);
    }
    Optional<DurableJob> durable = durable(settings, version, runtime, datasets);
    return DurableJob.during(
        durable,
        () -> train(settings, version, runtime, surroundings, admitted, datasets, durable));
  }

  private Optional<DurableJob> durable(
      SettingValues settings,
      XgboostVersion version,
      RuntimeParams runtime,
      List<Dataset<?>> datasets) {
    if (!settings.text(SparkSettings.DURABLE).isEmpty() && stock.evaluation() != null) {
      throw bad(
          "spark.rejoin.durable is set, but with a custom evaluation each rank has scores of its"
              + " own, which no durable checkpoint has; use one of XGBoost's metrics, or unset it");
    }
    List<String> terms = new ArrayList<>(stock.terms());
    terms.add(version.toString());
    if (!version.keepsBooster()) {
      // The model depends on it there.
      terms.add("checkpoints " + settings.number(XgboostSettings.CHECKPOINT_ROUNDS));
    }
    SparkContext context = dataset.sparkSession().sparkContext();
    boolean isKnown = stock.objective() == null;
    return DurableJob.of(context, settings, runtime.numWorkers(), terms, datasets, isKnown)
        .map(job -> job.describing(stock.features()));
  }

  private TrainingResult train(
      SettingValues settings,
      XgboostVersion version,
      RuntimeParams runtime,
      Surroundings surroundings,
      GangAdmission.AdmittedGang admitted,
      List<Dataset<?>> datasets,
      Optional<DurableJob> durable) {
    List<PreparedInput> inputs = new ArrayList<>();
    try {
      InputPreparation preparation =
          new InputPreparation(settings, dataset.sparkSession(), durable);
      int workers = runtime.numWorkers();
      int most = admitted.bounds().max();
      boolean isElastic = admitted.bounds().isElastic();
      for (Dataset<?> each : datasets) {
        String what = inputs.isEmpty() ? "training" : "evaluation";
        PreparedInput input = preparation.prepare(what, () -> stock.prepare(each), workers);
        inputs.add(input);
        DurableJob.check(durable, () -> check(what, input, most));
      }
      CheckpointRhythm rhythm =
          CheckpointRhythm.of(
                  version,
                  (int) settings.number(XgboostSettings.CHECKPOINT_ROUNDS),
                  inputs.get(0).largestPartitionBytes())
              .withLogs(
                  settings.number(CommonSettings.LOG_MEMORY),
                  surroundings.mostRanksOfAnExecutor(most));
      TrainingSpec spec =
          new TrainingSpec(isElastic ? 0 : workers, runtime.numRounds(), stock.parameters(), rhythm)
              .earlyStopping(runtime.earlyStoppingRounds())
              .custom(stock.objective(), stock.evaluation())
              .checkpointsOnNotice(surroundings.decommissions());
      DurableFolder folder = DurableJob.checkpoints(durable, inputs);
      byte[] result =
          new GangJob(surroundings, admitted, settings, listeners, faults, folder)
              .run(stock.matrices().of(inputs), inputs, new XgboostProgram(spec, folder));
      return TrainingResult.of(result);
    } finally {
      inputs.forEach(PreparedInput::close);
    }
  }

  /** What XGBoost can't train on. */
  private void check(String what, PreparedInput input, int mostWorkers) {
    if (input.emptyPartition().isPresent()) {
      throw bad(
          "partition %d of the %s input is empty; every worker needs rows: use fewer workers, or"
              + " repartition the data",
          input.emptyPartition().getAsInt(), what);
    }
    if (input.rows() < mostWorkers) {
      throw bad(
          "the %s input has %d rows, but there may be %d workers (spark.rejoin.workers.max); every"
              + " worker needs rows",
          what, input.rows(), mostWorkers);
    }
    if (input.fromSparse() && !stock.takesSparse()) {
      throw bad(
          "the %s input has sparse vectors, but the missing value is not set: whether their zeros"
              + " are values or missing can't be known. Call setMissing(0) if they are missing,"
              + " or make the vectors dense",
          what);
    }
  }

  private static RejoinException bad(String format, Object... facts) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT, String.format(Locale.ROOT, format, facts));
  }
}
