package io.rejoin.spark;

import io.rejoin.EventDelivery;
import io.rejoin.EventReporter;
import io.rejoin.Faults;
import io.rejoin.GangTask;
import io.rejoin.JobId;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.Words;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import io.rejoin.spark.ui.JobRecorder;
import io.rejoin.spark.ui.LiveTab;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.storage.BlockManagerId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One training on a gang, whatever it trains: a tracker on the driver, and the gang's tasks on the
 * stored input.
 */
final class GangJob {
  private static final Logger LOG = LoggerFactory.getLogger(GangJob.class);

  private final Surroundings surroundings;
  private final SettingValues settings;
  private final Listeners listeners;
  private final Faults faults;
  private final DurableFolder durable;
  private final WorldBounds bounds;
  private final int workers;
  private final int slotsOfExecutor;

  /**
   * A training.
   *
   * @param admitted how many workers it begins with, and may have later
   * @param durable what the job goes on from if there is something; null for none
   */
  GangJob(
      Surroundings surroundings,
      GangAdmission.AdmittedGang admitted,
      SettingValues settings,
      Listeners listeners,
      Faults faults,
      DurableFolder durable) {
    this.bounds = admitted.bounds();
    this.workers = admitted.workers();
    this.slotsOfExecutor = admitted.slotsOfExecutor();
    this.durable = durable;
    this.surroundings = surroundings;
    this.settings = settings;
    this.listeners = listeners;
    this.faults = faults;
  }

  /**
   * Trains, and returns the bytes of the result.
   *
   * @param rows what each rank reads; made of the stored inputs
   * @throws RejoinException the job's error; CANCELLED when the user ended it
   */
  <T> byte[] run(RDD<T> rows, List<PreparedInput> inputs, GangProgram<T> program) {
    return run(rows, inputs, program, gang -> gang);
  }

  /** The same, where {@code stage} says what is run over the gang, partition by partition. */
  <T> byte[] run(
      RDD<T> rows,
      List<PreparedInput> inputs,
      GangProgram<T> program,
      Function<RDD<byte[]>, RDD<?>> stage) {
    JobId job = JobId.random();
    String budget = sayWhatCanBeSurvived(job, inputs);
    sayWhatIsTaken(job, inputs, program);
    Secret secret = Secret.random();
    try (Tracker tracker = open(job, secret);
        RunningJobs.RunningJob running = running(job, inputs, program.rounds());
        JobRecorder tab =
            LiveTab.begin(surroundings.context(), job, facts(inputs, program.rounds()))) {
      GangTask task = new GangTask(job, secret, reachedAt(tracker), settings);
      GangRdd<T> gang = new GangRdd<>(rows, task, program, places(rows, inputs), tasks());
      List<EventDelivery> deliveries = listeners.open(job, new EventReporter(job, settings));
      try {
        return new Gang(
                tracker,
                running,
                tab,
                deliveries,
                surroundings,
                budget,
                program,
                bounds,
                workers,
                tasks() > 0,
                durable != null)
            .run(stage.apply(gang));
      } finally {
        deliveries.forEach(EventDelivery::close);
      }
    }
  }

  private Tracker open(JobId job, Secret secret) {
    SparkContext context = surroundings.context();
    Tracker.Settings trackerSettings =
        bounds
            .over(new Tracker.Settings(workers, GangTask.address(surroundings.trackerBinds())))
            .with(settings)
            .name(context.appName())
            .deaths(surroundings.deathsRetried() + 1, surroundings.deathsSetting())
            .frameworkCountsDeaths()
            .faults(faults);
    if (durable != null) {
      trackerSettings.resume(DurableFolder.checkpoints(durable));
    }
    try {
      return Tracker.open(job, secret, trackerSettings);
    } catch (RejoinException e) {
      throw settings.portsAreTaken(CommonSettings.TRACKER_PORTS, surroundings.portsSetting(), e);
    }
  }

  /** The tracker's host as executors know it, with the port that it got. */
  private String reachedAt(Tracker tracker) {
    String host = surroundings.trackerHost();
    boolean isBare = host.contains(":") && !host.startsWith("[");
    String port = tracker.address().substring(tracker.address().lastIndexOf(':'));
    return (isBare ? "[" + host + "]" : host) + port;
  }

  /** Returns what it logs, for the error of a job that needs more. */
  private String sayWhatCanBeSurvived(JobId job, List<PreparedInput> inputs) {
    long bytes = bytes(inputs);
    int deaths = surroundings.deathsRetried();
    String budget =
        String.format(
            Locale.ROOT,
            "each rank may die %s (%s), and of the executors %s may die at the same moment"
                + " (%s)",
            Words.times(deaths),
            surroundings.deathsSetting(),
            deathsAtOnce(inputs),
            deathsAtOnceSetting());
    if (deaths == 0) {
      LOG.warn(
          "job {}: no death that counts can be survived, because {} allows no retry; {}",
          job.brief(),
          surroundings.master(),
          surroundings.deathsAdvice());
    } else {
      LOG.info("job {}: {} workers, input of {} bytes; {}", job.brief(), workers, bytes, budget);
    }
    if (!inputs.stream().allMatch(PreparedInput::isCopied)) {
      LOG.info(
          "job {}: the further copies of its input are being made while the ranks begin; the rows"
              + " of an executor that dies before that are computed again"
              + " (spark.rejoin.input.lost)",
          job.brief());
    }
    if (spares() > 0) {
      LOG.info(
          "job {}: {} more tasks stand by (spark.rejoin.spares); one takes over a rank whose task"
              + " or executor is lost, at once, and the task that Spark tries again is the next"
              + " one",
          job.brief(),
          spares());
    }
    if (bounds.isElastic()) {
      LOG.info(
          "job {}: the number of workers may change, from {} (spark.rejoin.workers.min) to {}"
              + " (spark.rejoin.workers.max)",
          job.brief(),
          bounds.min(),
          bounds.max());
    }
    if (!surroundings.context().isLocal() && !surroundings.decommissions()) {
      LOG.info(
          "job {}: spark.decommission.enabled is off: an executor that is told of its end in time"
              + " (a spot instance) is not left before it, and its ranks are tried again after it",
          job.brief());
    }
    return budget;
  }

  /** Beside the heap of an executor, whose container has a limit. */
  private void sayWhatIsTaken(JobId job, List<PreparedInput> inputs, GangProgram<?> program) {
    if (surroundings.context().isLocal() || program.besideExecutor()) {
      return;
    }
    long pages = inputs.stream().mapToLong(PreparedInput::largestPartitionBytes).sum();
    ExecutorMemory memory =
        ExecutorMemory.of(
            surroundings.context().getConf(),
            surroundings.master(),
            program.nativeBytes(pages),
            settings.number(CommonSettings.LOG_MEMORY),
            surroundings.mostRanksOfAnExecutor(bounds.max() + spares()));
    LOG.info("job {}: {}", job.brief(), memory.account());
    memory
        .tooLittle()
        .ifPresent(advice -> LOG.warn("job {}: {}; {}", job.brief(), memory.account(), advice));
  }

  private String deathsAtOnce(List<PreparedInput> inputs) {
    int atOnce = inputs.stream().mapToInt(PreparedInput::deathsSurvived).min().orElse(workers);
    return atOnce >= workers - 1 ? "all but one" : String.valueOf(atOnce);
  }

  private String deathsAtOnceSetting() {
    return durable == null ? "spark.rejoin.input.replicas" : "spark.rejoin.durable";
  }

  /** What the tab in Spark's web UI shows of the job besides its events; never a secret. */
  private Map<String, String> facts(List<PreparedInput> inputs, int rounds) {
    Map<String, String> facts = new LinkedHashMap<>();
    facts.put("ranks", String.valueOf(workers));
    facts.put("spares", String.valueOf(spares()));
    facts.put("rounds", String.valueOf(rounds));
    facts.put("page_bytes", String.valueOf(bytes(inputs)));
    facts.put("deaths_allowed", String.valueOf(surroundings.deathsRetried()));
    facts.put("deaths_setting", surroundings.deathsSetting());
    facts.put("at_once", deathsAtOnce(inputs));
    facts.put("at_once_setting", deathsAtOnceSetting());
    facts.put("log_memory", String.valueOf(settings.number(CommonSettings.LOG_MEMORY)));
    facts.put("log_disk", String.valueOf(settings.number(CommonSettings.LOG_DISK)));
    return facts;
  }

  private RunningJobs.RunningJob running(JobId job, List<PreparedInput> inputs, int rounds) {
    SparkContext context = surroundings.context();
    return RunningJobs.of(context).begin(context, job, workers, rounds, bytes(inputs));
  }

  private static long bytes(List<PreparedInput> inputs) {
    return inputs.stream().mapToLong(PreparedInput::bytes).sum();
  }

  private int spares() {
    return (int) settings.number(SparkSettings.SPARES);
  }

  /** How many there are, if they ask for ranks; 0 if each has its own. */
  private int tasks() {
    return SparkSettings.givesRanks(settings) ? bounds.max() + spares() : 0;
  }

  /** Where each task is tried first. Rows of a world that may change belong to no task. */
  private List<List<String>> places(RDD<?> rows, List<PreparedInput> inputs) {
    List<List<BlockManagerId>> holders =
        new ArrayList<>(
            inputs.isEmpty() || bounds.isElastic()
                ? Collections.emptyList()
                : inputs.get(0).stored().holders());
    int most = Math.max(tasks(), rows.getNumPartitions());
    while (holders.size() < most) {
      holders.add(Collections.emptyList());
    }
    return FirstPlaces.of(holders, hosts(), slotsOfExecutor);
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
