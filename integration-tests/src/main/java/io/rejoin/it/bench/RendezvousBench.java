package io.rejoin.it.bench;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * The first meeting of three ranks in three warm processes: from the start of the first agent until
 * every rank has its start. Beside it, as information, how long each rank then takes to connect its
 * worker.
 */
final class RendezvousBench {
  private static final int WORLD = 3;
  private static final double BAR_MILLIS = 30;
  private static final long LIMIT_SECONDS = 60;

  private final Report report;
  private final Options options;

  RendezvousBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException {
    report.title("Rendezvous of " + WORLD + " ranks, milliseconds");
    WorkDirectory work = WorkDirectory.fresh("bench-rendezvous");
    List<WorkerProcess> processes = new ArrayList<>();
    try {
      for (int i = 0; i < WORLD; i++) {
        processes.add(WorkerProcess.start("rank-" + i, work, "256m", Map.of()));
      }
      List<Double> meeting = new ArrayList<>();
      List<Double> connecting = new ArrayList<>();
      for (int run = -3; run < options.pairs(); run++) {
        double[] both = meet(processes);
        if (run >= 0) {
          meeting.add(both[0]);
          connecting.add(both[1]);
        }
      }
      report.add(Figure.alone("rendezvous", "agents started -> plan", "ms", meeting, BAR_MILLIS));
      report.add(
          Figure.alone(
              "rendezvous", "plan -> all workers connected", "ms", connecting, Double.NaN));
    } finally {
      processes.forEach(WorkerProcess::close);
    }
  }

  private double[] meet(List<WorkerProcess> processes) {
    Shape shape = new Shape(300, 5, WORLD, 1);
    try (Cast cast = new Cast(shape, 0, Faults.none(), event -> {})) {
      List<CompletableFuture<Serializable>> answers = new ArrayList<>();
      for (int rank = 0; rank < WORLD; rank++) {
        answers.add(cast.start(processes.get(rank), List.of(rank)));
      }
      long first = Long.MAX_VALUE;
      long connected = 0;
      for (CompletableFuture<Serializable> answer : answers) {
        for (Object one : (List<?>) WorkerProcess.await(answer, LIMIT_SECONDS)) {
          RejoinWork.Moments moments = (RejoinWork.Moments) one;
          first = Math.min(first, moments.begunNanos());
          connected = Math.max(connected, moments.connectedNanos());
        }
      }
      cast.timeline().await(LIMIT_SECONDS);
      long planned = cast.timeline().at(Kind.PLAN_MADE, event -> true);
      return new double[] {(planned - first) / 1e6, (connected - planned) / 1e6};
    }
  }
}
