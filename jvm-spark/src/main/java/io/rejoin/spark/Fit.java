package io.rejoin.spark;

import io.rejoin.EventReporter;
import io.rejoin.Faults;
import io.rejoin.GangTask;
import io.rejoin.JobId;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
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
import java.util.function.Consumer;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.scala.spark.ColumnIndices;
import ml.dmlc.xgboost4j.scala.spark.RuntimeParams;
import org.apache.spark.SparkContext;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.storage.BlockManagerId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple2;

/** One fit, from the check of the settings to the stock model. */
final class Fit<M extends Model<M>> {
  private static final Logger LOG = LoggerFactory.getLogger(Fit.class);

  private final RejoinEstimator<M> parent;
  private final StockEstimator stock;
  private final Dataset<?> dataset;
  private final Consumer<TrainingEvent> listener;
  private final Faults faults;

  Fit(
      RejoinEstimator<M> parent,
      Estimator<M> stock,
      ParamMap extra,
      Dataset<?> dataset,
      Consumer<TrainingEvent> listener,
      Faults faults) {
    this.parent = parent;
    this.stock = StockEstimator.of(stock, extra);
    this.dataset = dataset;
    this.listener = listener;
    this.faults = faults == null ? Faults.none() : faults;
  }

  M run() {
    Surroundings.refuseConnect(dataset);
    SparkContext context = dataset.sparkSession().sparkContext();
    SettingValues set = SparkSettings.of(dataset.sparkSession());
    XgboostVersion version = XgboostVersion.loaded();
    StockMembers.check(version);
    NativeLibrary.logLevel(set.text(CommonSettings.LOG_LEVEL));
    Dataset<?> validated = stock.validated(dataset);
    RuntimeParams runtime = stock.runtime(context.isLocal());
    Surroundings surroundings = new Surroundings(context, runtime);
    surroundings.check(stock.wantsGpu(validated));
    SettingValues settings = surroundings.stockFirst(set);

    try (GangAdmission.AdmittedGang admittedGang =
        GangAdmission.of(context).admit(context, runtime.numWorkers(), settings)) {
      LOG.debug("{} admitted", admittedGang);
      return stock.model(train(settings, version, runtime, surroundings, validated), parent);
    }
  }

  private TrainingResult train(
      SettingValues settings,
      XgboostVersion version,
      RuntimeParams runtime,
      Surroundings surroundings,
      Dataset<?> validated) {
    int workers = runtime.numWorkers();
    InputPreparation preparation = new InputPreparation(settings, dataset.sparkSession());
    List<PreparedInput> inputs = new ArrayList<>();
    try {
      Tuple2<Dataset<?>, ColumnIndices> prepared = stock.preprocess(validated);
      PreparedInput rows = preparation.prepare("training", prepared._1(), workers, stock);
      inputs.add(rows);
      Dataset<?> evaluationSet = stock.preprocessedEvaluation();
      PreparedInput evaluation = null;
      if (evaluationSet != null) {
        evaluation = preparation.prepare("evaluation", evaluationSet, workers, stock);
        inputs.add(evaluation);
      }
      CheckpointRhythm rhythm =
          CheckpointRhythm.of(
                  version,
                  (int) settings.number(XgboostSettings.CHECKPOINT_ROUNDS),
                  rows.largestPartitionBytes())
              .withLogs(
                  settings.number(CommonSettings.LOG_MEMORY), surroundings.mostRanksOfAnExecutor());
      TrainingSpec spec =
          new TrainingSpec(workers, runtime.numRounds(), stock.parameters(), rhythm)
              .earlyStopping(runtime.earlyStoppingRounds())
              .custom(stock.objective(), stock.evaluation());
      JobId job = JobId.random();
      String budget = sayWhatCanBeSurvived(job, workers, surroundings, inputs);
      return runGang(job, settings, surroundings, spec, prepared._2(), inputs, evaluation, budget);
    } finally {
      inputs.forEach(PreparedInput::close);
    }
  }

  private TrainingResult runGang(
      JobId job,
      SettingValues settings,
      Surroundings surroundings,
      TrainingSpec spec,
      ColumnIndices columns,
      List<PreparedInput> inputs,
      PreparedInput evaluation,
      String budget) {
    SparkContext context = dataset.sparkSession().sparkContext();
    Secret secret = Secret.random();
    Tracker.Settings trackerSettings =
        new Tracker.Settings(surroundings.workers(), GangTask.address(surroundings.trackerHost()))
            .with(settings)
            .name(context.appName())
            .deaths(surroundings.deathsRetried() + 1, surroundings.deathsSetting())
            .faults(faults);
    try (Tracker tracker = open(job, secret, trackerSettings, settings)) {
      SparkTask task = new SparkTask(new GangTask(job, secret, tracker.address(), settings), spec);
      GangRdd gang =
          new GangRdd(
              stock.watches(
                  inputs.get(0).rows(), columns, evaluation == null ? null : evaluation.rows()),
              inputs,
              task,
              hosts());
      Consumer<TrainingEvent> reporter = new EventReporter(job, settings);
      return new Gang(
              context,
              tracker,
              listener == null ? reporter : reporter.andThen(listener),
              surroundings.deathsRetried(),
              surroundings.deathsSetting(),
              budget)
          .run(gang);
    }
  }

  private static Tracker open(
      JobId job, Secret secret, Tracker.Settings trackerSettings, SettingValues settings) {
    try {
      return Tracker.open(job, secret, trackerSettings);
    } catch (RejoinException e) {
      throw settings.portsAreTaken(CommonSettings.TRACKER_PORTS, e);
    }
  }

  /** Returns what it logs, for the error of a fit that needs more. */
  private static String sayWhatCanBeSurvived(
      JobId job, int workers, Surroundings surroundings, List<PreparedInput> inputs) {
    int atOnce = inputs.stream().mapToInt(PreparedInput::deathsSurvived).min().orElse(0);
    long bytes = inputs.stream().mapToLong(PreparedInput::bytes).sum();
    int deaths = surroundings.deathsRetried();
    String budget =
        String.format(
            Locale.ROOT,
            "each rank may die %d times (%s), and of the executors %s may die at the same moment"
                + " (spark.rejoin.input.replicas)",
            deaths,
            surroundings.deathsSetting(),
            atOnce >= workers - 1 ? "all but one" : String.valueOf(atOnce));
    if (deaths == 0) {
      LOG.warn(
          "job {}: no death can be survived, because {} allows no retry; {}",
          job.brief(),
          surroundings.master(),
          surroundings.deathsAdvice());
    } else {
      LOG.info("job {}: {} workers, input of {} bytes; {}", job.brief(), workers, bytes, budget);
    }
    return budget;
  }

  /** The hosts of the executors that the session has now. */
  private static List<String> hosts() {
    return InputPreparation.blockManagers()
        .filter(one -> !one.isDriver())
        .map(BlockManagerId::host)
        .distinct()
        .collect(Collectors.toList());
  }
}
