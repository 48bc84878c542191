package io.rejoin.it.bench;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.Processes;
import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * How long a frozen process (SIGSTOP in a round, its sockets stay open) goes unnoticed, with the
 * default settings.
 */
final class FrozenBench {
  private static final int WORLD = 3;
  private static final int FROZEN = 1;
  private static final double BAR_MILLIS = 2_000;
  private static final long LIMIT_SECONDS = 60;
  private static final Shape SHAPE = new Shape(20_000, 10, WORLD, 1_000);

  private final Report report;
  private final Options options;

  FrozenBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException {
    report.title("A frozen process among " + WORLD + ", milliseconds");
    WorkDirectory work = WorkDirectory.fresh("bench-frozen");
    List<Double> unnoticed = new ArrayList<>();
    List<WorkerProcess> processes = new ArrayList<>();
    try {
      for (int rank = 0; rank < WORLD; rank++) {
        processes.add(WorkerProcess.start("process-" + rank, work, "384m", Map.of()));
      }
      for (int run = 0; run < options.pairs(); run++) {
        unnoticed.add(freeze(processes));
      }
    } finally {
      processes.forEach(WorkerProcess::close);
    }
    report.add(Figure.alone("frozen", "frozen -> declared lost", "ms", unnoticed, BAR_MILLIS));
  }

  private double freeze(List<WorkerProcess> processes) {
    Faults faults = Faults.none().and(FROZEN, 0, "version:10:5000", "stop");
    CompletableFuture<TrainingEvent> struck = new CompletableFuture<>();
    CompletableFuture<TrainingEvent> lost = new CompletableFuture<>();
    List<CompletableFuture<Serializable>> answers = new ArrayList<>();
    double millis;
    try (Cast cast =
        new Cast(
            SHAPE,
            1,
            faults,
            event -> {
              if (event.kind() == Kind.FAULT_FIRED) {
                struck.complete(event);
              } else if (event.kind() == Kind.RANK_LOST) {
                lost.complete(event);
              }
            })) {
      for (int rank = 0; rank < WORLD; rank++) {
        answers.add(cast.start(processes.get(rank), List.of(rank)));
      }
      try {
        long from = struck.orTimeout(LIMIT_SECONDS, TimeUnit.SECONDS).join().atNanos();
        millis = (lost.orTimeout(LIMIT_SECONDS, TimeUnit.SECONDS).join().atNanos() - from) / 1e6;
      } finally {
        Processes.signal(processes.get(FROZEN).pid(), "CONT");
      }
      cast.cancel("measured");
    }
    for (CompletableFuture<Serializable> answer : answers) {
      // Nobody takes the seat, so every rank ends with an error; the processes stay for the next.
      answer.handle((result, failure) -> failure).orTimeout(LIMIT_SECONDS, TimeUnit.SECONDS).join();
    }
    return millis;
  }
}
