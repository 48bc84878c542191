package io.rejoin.it.bench;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.Digest;
import io.rejoin.it.WorkDirectory;
import io.rejoin.xgboost.TrainingResult;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import ml.dmlc.xgboost4j.java.RabitTracker;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * Training time, first round to last, through the bridge against XGBoost's own collective, without
 * faults. No Spark: worker processes, and threads of one of them; the same loop on both sides; each
 * pair in the same warm JVMs, one after the other, the first one in turn. The time is taken on both
 * sides by the thread that trains, from before its first round to after its last; the checkpoints
 * between ours are in it. The slowest rank counts. Both models are compared, too.
 */
final class TrainingBench {
  private static final double BAR = 1.05;
  private static final long LIMIT_SECONDS = 180;
  private static final int MOST_WORKERS = 4;

  /** What an agent's logs may take by default, {@code spark.rejoin.log.memory}. */
  private static final double LOG_BUDGET_MEGABYTES = 256;

  /**
   * One training: what its ranks' clocks say, the model it came to, and the most that an agent told
   * of its logs and of its checkpoints.
   */
  private record Run(
      List<RoundClock> clocks, String digest, double logMegabytes, double heldMegabytes) {
    /** The slowest rank's training. */
    double millis() {
      return clocks.stream().mapToDouble(RoundClock::totalMillis).max().orElseThrow();
    }

    /** The slowest rank's round in the middle: what a single disturbance does not change. */
    double roundMillis() {
      return clocks.stream().mapToDouble(RoundClock::medianRoundMillis).max().orElseThrow();
    }
  }

  private final Report report;
  private final Options options;
  private final List<WorkerProcess> processes = new ArrayList<>();
  private final List<Figure> memory = new ArrayList<>();

  TrainingBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException, XGBoostError {
    report.title(
        "Training, first round to last, milliseconds: Rejoin and XGBoost's own collective");
    WorkDirectory work = WorkDirectory.fresh("bench-training");
    try {
      for (int i = 0; i < MOST_WORKERS; i++) {
        processes.add(WorkerProcess.start("trainer-" + i, work, "512m", Map.of()));
      }
      for (boolean threads : new boolean[] {false, true}) {
        for (int world = 2; world <= MOST_WORKERS; world++) {
          config(new Shape(20_000, 10, world, options.rounds(100)), threads);
          config(new Shape(100_000, 50, world, options.rounds(20)), threads);
        }
      }
    } finally {
      processes.forEach(WorkerProcess::close);
    }
    report.title("Memory of one agent beside the trainer, the most in any of these trainings");
    for (Figure figure : memory) {
      report.add(figure);
    }
  }

  private void config(Shape shape, boolean threads) throws IOException, XGBoostError {
    String name = shape + (threads ? " as threads" : " as processes");
    if (!options.wants(name)) {
      return;
    }
    List<Double> ours = new ArrayList<>();
    List<Double> stock = new ArrayList<>();
    List<Double> oursRound = new ArrayList<>();
    List<Double> stockRound = new ArrayList<>();
    List<Double> logs = new ArrayList<>();
    List<Double> held = new ArrayList<>();
    // One pair more than is counted: it warms the JVMs up.
    for (int pair = -1; pair < options.pairs(); pair++) {
      boolean oursFirst = Figure.oursFirst(pair);
      Run first = oursFirst ? rejoin(shape, threads) : stock(shape, threads);
      Run second = oursFirst ? stock(shape, threads) : rejoin(shape, threads);
      if (!first.digest().equals(second.digest())) {
        throw new IllegalStateException(
            name + ": the models differ: " + first.digest() + " and " + second.digest());
      }
      if (pair >= 0) {
        Run our = oursFirst ? first : second;
        ours.add(our.millis());
        oursRound.add(our.roundMillis());
        Run peer = oursFirst ? second : first;
        stock.add(peer.millis());
        stockRound.add(peer.roundMillis());
        logs.add(our.logMegabytes());
        held.add(our.heldMegabytes());
      }
    }
    report.add(Figure.paired("training", name, "ms", ours, "stock", stock, BAR));
    report.add(
        Figure.paired(
            "training", name + ", a round", "ms", oursRound, "stock", stockRound, Double.NaN));
    memory.add(Figure.alone("memory", name + ", logs", "MB", logs, LOG_BUDGET_MEGABYTES));
    memory.add(Figure.alone("memory", name + ", checkpoints", "MB", held, Double.NaN));
  }

  private Run rejoin(Shape shape, boolean threads) {
    try (Cast cast = new Cast(shape, 0, Faults.none(), event -> {})) {
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
      byte[] model = TrainingResult.of(cast.result()).model();
      return new Run(
          clocks,
          Digest.of(model),
          megabytes(cast.timeline(), "log_bytes_peak"),
          megabytes(cast.timeline(), "checkpoint_bytes"));
    }
  }

  private static double megabytes(Timeline timeline, String field) {
    return timeline.events().stream()
        .filter(event -> event.kind() == Kind.USAGE)
        .mapToDouble(event -> event.number(field) / 1e6)
        .max()
        .orElse(Double.NaN);
  }

  private Run stock(Shape shape, boolean threads) throws XGBoostError {
    RabitTracker tracker = new RabitTracker(shape.world(), "127.0.0.1", 0, 0);
    if (!tracker.start()) {
      throw new IllegalStateException("XGBoost's tracker did not start");
    }
    List<CompletableFuture<Serializable>> answers = new ArrayList<>();
    if (threads) {
      answers.add(
          processes.get(0).ask(new StockWork(tracker.getWorkerArgs(), shape, shape.world())));
    } else {
      for (int i = 0; i < shape.world(); i++) {
        answers.add(processes.get(i).ask(new StockWork(tracker.getWorkerArgs(), shape, 1)));
      }
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
    return new Run(clocks, digest, 0, 0);
  }
}
