package io.rejoin.it.bench;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.Digest;
import io.rejoin.xgboost.TrainingResult;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import ml.dmlc.xgboost4j.java.RabitTracker;
import ml.dmlc.xgboost4j.java.XGBoostError;

/** Trainings of one shape on the same processes, ours and stock ones. */
final class Trainings {
  private static final long LIMIT_SECONDS = 180;

  /**
   * One training: what its ranks' clocks say, the model it came to, the most that an agent told of
   * its logs and of its checkpoints, and the most memory that its processes had, all together.
   */
  record Run(
      List<RoundClock> clocks,
      String digest,
      double logMegabytes,
      double heldMegabytes,
      double peakMegabytes) {
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
  private final boolean threads;

  /** On the first of these processes, or on as many as there are ranks. */
  Trainings(Host here, List<WorkerProcess> processes, Shape shape, boolean threads) {
    this.here = here;
    this.processes = processes.subList(0, threads ? 1 : shape.world());
    this.shape = shape;
    this.threads = threads;
  }

  /** With Rejoin, as a user's training is. */
  Run rejoin(boolean hook) throws IOException {
    return rejoin(hook, 0);
  }

  /** With Rejoin, through the hook, its recovery as good as off. */
  Run unrecoverable() throws IOException {
    return rejoin(true, RejoinWork.UNRECOVERABLE);
  }

  private Run rejoin(boolean hook, int checkpointRounds) throws IOException {
    PeakMemory.forget(pids());
    try (Cast cast = new Cast(here, shape, checkpointRounds, hook, Faults.none(), event -> {})) {
      List<CompletableFuture<Serializable>> answers = new ArrayList<>();
      if (threads) {
        answers.add(
            cast.start(processes.get(0), IntStream.range(0, shape.world()).boxed().toList()));
      } else {
        for (int rank = 0; rank < shape.world(); rank++) {
          answers.add(cast.start(processes.get(rank), List.of(rank)));
        }
      }
      List<RoundClock> clocks = new ArrayList<>();
      for (CompletableFuture<Serializable> answer : answers) {
        for (Object one : (List<?>) WorkerProcess.await(answer, LIMIT_SECONDS)) {
          clocks.add(((RejoinWork.Moments) one).clock());
        }
      }
      cast.timeline().await(LIMIT_SECONDS);
      boolean hooked =
          cast.timeline().events().stream()
              .anyMatch(
                  event ->
                      event.kind() == Kind.HOOK_AGREED
                          && Boolean.parseBoolean(event.text("hooked")));
      if (hooked != hook) {
        throw new IllegalStateException("the hook is " + (hooked ? "" : "not ") + "used");
      }
      byte[] result = cast.result();
      byte[] model =
          checkpointRounds == RejoinWork.UNRECOVERABLE ? result : TrainingResult.of(result).model();
      return new Run(
          clocks,
          Digest.of(model),
          megabytes(cast.timeline(), "log_bytes_peak"),
          megabytes(cast.timeline(), "checkpoint_bytes"),
          PeakMemory.megabytes(pids()));
    }
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
      int ranks = threads ? shape.world() : 1;
      answers.add(process.ask(new StockWork(tracker.getWorkerArgs(), shape, ranks)));
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
    return new Run(clocks, digest, 0, 0, PeakMemory.megabytes(pids()));
  }

  private LongStream pids() {
    return processes.stream().mapToLong(WorkerProcess::pid);
  }

  private static double megabytes(Timeline timeline, String field) {
    return timeline.events().stream()
        .filter(event -> event.kind() == Kind.USAGE)
        .mapToDouble(event -> event.number(field) / 1e6)
        .max()
        .orElse(Double.NaN);
  }
}
