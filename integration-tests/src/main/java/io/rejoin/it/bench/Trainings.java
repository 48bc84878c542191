package io.rejoin.it.bench;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.Digest;
import io.rejoin.xgboost.TrainingResult;
import io.rejoin.xgboost.XgboostSettings;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import ml.dmlc.xgboost4j.java.RabitTracker;
import ml.dmlc.xgboost4j.java.XGBoostError;

/** Trainings of one shape on the same processes, ours and stock ones. */
final class Trainings {
  private static final long LIMIT_SECONDS = 180;
  private static final long POLL_MILLIS = 100;

  /**
   * One training: what its ranks' clocks say, the model it came to, the largest logs that an agent
   * reported, and the most memory that its processes had, all together.
   */
  record Run(List<RoundClock> clocks, String digest, double logMegabytes, double peakMegabytes) {
    /** The slowest rank's training. */
    double millis() {
      return clocks.stream().mapToDouble(RoundClock::totalMillis).max().orElseThrow();
    }

    /** The slowest rank's round in the middle: what a single disturbance does not change. */
    double roundMillis() {
      return clocks.stream().mapToDouble(RoundClock::medianRoundMillis).max().orElseThrow();
    }
  }

  private final Host here;
  private final List<WorkerProcess> processes;
  private final Shape shape;
  private final int ranksEach;

  /** On the first of these processes, or on as many as there are ranks. */
  Trainings(Host here, List<WorkerProcess> processes, Shape shape, boolean threads) {
    this.here = here;
    this.processes = processes.subList(0, threads ? 1 : shape.world());
    this.shape = shape;
    this.ranksEach = threads ? shape.world() : 1;
  }

  /** With Rejoin, as a user's training is, through the hook or through the bridge alone. */
  Run rejoin(boolean hook) throws IOException {
    PeakMemory.forget(pids());
    JobId job = JobId.random();
    Secret secret = Secret.random();
    Tracker.Settings rules = new Tracker.Settings(shape.world(), here.address());
    try (Tracker tracker = Tracker.open(job, secret, rules)) {
      AgentSettings settings =
          new AgentSettings(tracker.address())
              .with(XgboostSettings.of(Map.of("hook", hook ? "auto" : "off")));
      List<CompletableFuture<Serializable>> answers = new ArrayList<>();
      for (WorkerProcess process : processes) {
        String address = process.host().address();
        int first = answers.size();
        answers.add(
            process.ask(new RejoinWork(job, secret, settings, address, shape, first, ranksEach)));
      }
      List<TrainingEvent> events = toItsEnd(tracker);
      List<RoundClock> clocks = new ArrayList<>();
      for (CompletableFuture<Serializable> answer : answers) {
        for (Object clock : (List<?>) WorkerProcess.await(answer, LIMIT_SECONDS)) {
          clocks.add((RoundClock) clock);
        }
      }
      if (events.stream().anyMatch(Trainings::isHooked) != hook) {
        throw new IllegalStateException("the hook is " + (hook ? "not " : "") + "used");
      }
      double logs =
          events.stream()
              .filter(event -> event.kind() == Kind.USAGE)
              .mapToDouble(event -> event.number("log_bytes_peak") / 1e6)
              .max()
              .orElse(Double.NaN);
      String digest = Digest.of(TrainingResult.of(tracker.result()).model());
      return new Run(clocks, digest, logs, PeakMemory.megabytes(pids()));
    }
  }

  private static List<TrainingEvent> toItsEnd(Tracker tracker) {
    List<TrainingEvent> events = new ArrayList<>();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
    while (System.nanoTime() < deadline) {
      Optional<TrainingEvent> event = tracker.poll(POLL_MILLIS);
      event.ifPresent(events::add);
      if (event.filter(one -> one.kind() == Kind.JOB_ENDED).isPresent()) {
        return events;
      }
      if (event.filter(one -> one.kind() == Kind.JOB_FAILED).isPresent()) {
        break;
      }
    }
    throw new IllegalStateException(
        "the job did not end well within " + LIMIT_SECONDS + " s; its events: " + events);
  }

  private static boolean isHooked(TrainingEvent event) {
    return event.kind() == Kind.HOOK_AGREED && Boolean.parseBoolean(event.text("hooked"));
  }

  /** With XGBoost's own collective. */
  Run stock() throws IOException, XGBoostError {
    PeakMemory.forget(pids());
    RabitTracker tracker = new RabitTracker(shape.world(), here.address(), 0, 0);
    if (!tracker.start()) {
      throw new IllegalStateException("XGBoost's tracker did not start");
    }
    List<CompletableFuture<Serializable>> answers = new ArrayList<>();
    for (WorkerProcess process : processes) {
      answers.add(process.ask(new StockWork(tracker.getWorkerArgs(), shape, ranksEach)));
    }
    List<RoundClock> clocks = new ArrayList<>();
    String digest = "";
    for (CompletableFuture<Serializable> answer : answers) {
      for (Object one : (List<?>) WorkerProcess.await(answer, LIMIT_SECONDS)) {
        StockWork.Result result = (StockWork.Result) one;
        clocks.add(result.clock());
        digest = result.digest();
      }
    }
    tracker.waitFor(0);
    return new Run(clocks, digest, 0, PeakMemory.megabytes(pids()));
  }

  private LongStream pids() {
    return processes.stream().mapToLong(WorkerProcess::pid);
  }
}
