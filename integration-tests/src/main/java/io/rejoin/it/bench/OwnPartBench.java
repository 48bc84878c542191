package io.rejoin.it.bench;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What a death costs without any framework, and what of it is Rejoin's own doing: one of three
 * processes is killed in the middle of a round, with a model of about 1 MB, and a warm process that
 * stands by takes its place at once.
 */
final class OwnPartBench {
  private static final int WORLD = 3;
  private static final int STRUCK = 1;
  private static final double BAR_MILLIS = 100;
  private static final long LIMIT_SECONDS = 120;

  /** After so many rounds of this shape the model has about 1 MB. */
  private static final int STRUCK_VERSION = 260;

  private static final Shape SHAPE = new Shape(20_000, 10, WORLD, STRUCK_VERSION + 10);

  private final Report report;
  private final Options options;
  private final WorkDirectory work = WorkDirectory.fresh("bench-own");
  private final Map<String, List<Double>> parts = new LinkedHashMap<>();
  private int started;

  OwnPartBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException {
    report.title("A death among " + WORLD + " plain processes, a warm one stands by; milliseconds");
    List<WorkerProcess> seated = new ArrayList<>();
    try {
      for (int rank = 0; rank < WORLD; rank++) {
        seated.add(start());
      }
      for (int run = -1; run < options.pairs(); run++) {
        WorkerProcess standby = start();
        warm(standby);
        Map<String, Double> measured = strike(seated, standby);
        seated.set(STRUCK, standby).close();
        if (run >= 0) {
          measured.forEach(
              (part, value) -> parts.computeIfAbsent(part, p -> new ArrayList<>()).add(value));
        }
      }
    } finally {
      seated.forEach(WorkerProcess::close);
    }
    for (Map.Entry<String, List<Double>> part : parts.entrySet()) {
      boolean barred = part.getKey().startsWith("our own part");
      String unit = part.getKey().startsWith("checkpoint") ? "kB" : "ms";
      report.add(
          Figure.alone(
              "own", part.getKey(), unit, part.getValue(), barred ? BAR_MILLIS : Double.NaN));
    }
  }

  private WorkerProcess start() throws IOException {
    return WorkerProcess.start("process-" + started++, work, "384m", Map.of());
  }

  /**
   * Loads the libraries and lets the JVM see the code, as in an executor that has trained before.
   */
  private static void warm(WorkerProcess process) {
    Shape small = new Shape(2_000, 10, 1, 5);
    try (Cast cast = new Cast(small, 1, Faults.none(), event -> {})) {
      WorkerProcess.await(cast.start(process, List.of(0)), LIMIT_SECONDS);
      cast.timeline().await(LIMIT_SECONDS);
    }
  }

  private Map<String, Double> strike(List<WorkerProcess> seated, WorkerProcess standby) {
    Faults faults = Faults.none().and(STRUCK, 0, "version:" + STRUCK_VERSION + ":20000", "kill");
    CompletableFuture<Long> lost = new CompletableFuture<>();
    // Processor time of all our threads at the two ends of the replay.
    Map<Kind, Long> spent = new ConcurrentHashMap<>();
    try (Cast cast =
        new Cast(
            SHAPE,
            1,
            faults,
            event -> {
              boolean second = isSecond(event);
              if (event.kind() == Kind.RANK_LOST) {
                lost.complete(event.atNanos());
              } else if (second
                  && (event.kind() == Kind.RANK_RESTORED || event.kind() == Kind.RANK_CAUGHTUP)) {
                spent.put(event.kind(), processorTime(seated, standby));
              }
            })) {
      List<CompletableFuture<Serializable>> answers = new ArrayList<>();
      for (int rank = 0; rank < WORLD; rank++) {
        CompletableFuture<Serializable> answer = cast.start(seated.get(rank), List.of(rank));
        if (rank != STRUCK) {
          answers.add(answer);
        }
      }
      lost.orTimeout(LIMIT_SECONDS, java.util.concurrent.TimeUnit.SECONDS).join();
      CompletableFuture<Serializable> again = cast.again(standby, STRUCK, 1);
      answers.add(again);
      answers.forEach(answer -> WorkerProcess.await(answer, LIMIT_SECONDS));
      cast.timeline().await(LIMIT_SECONDS);
      RejoinWork.Moments moments =
          (RejoinWork.Moments) ((List<?>) WorkerProcess.await(again, LIMIT_SECONDS)).get(0);
      double replay = (spent.get(Kind.RANK_CAUGHTUP) - spent.get(Kind.RANK_RESTORED)) / 1e6;
      return split(cast.timeline(), seated.get(STRUCK).ended().join(), moments, replay);
    }
  }

  private static Map<String, Double> split(
      Timeline timeline, long closed, RejoinWork.Moments moments, double ourReplay) {
    long struck = timeline.at(Kind.FAULT_FIRED, event -> true);
    TrainingEvent lost = timeline.first(Kind.RANK_LOST, event -> true);
    long joined = timeline.at(Kind.RANK_JOINED, OwnPartBench::isSecond);
    TrainingEvent restored = timeline.first(Kind.RANK_RESTORED, OwnPartBench::isSecond);
    long entered = timeline.at(Kind.VERSION_ENTERED, OwnPartBench::isSecond);
    long caughtUp = timeline.at(Kind.RANK_CAUGHTUP, OwnPartBench::isSecond);
    // The view that says who is lost. That all agents have it shows where a plan needs their
    // answers
    // to a view: there and back took this long when the newcomer came.
    long view =
        timeline.at(
            Kind.VIEW_MADE,
            event -> event.atNanos() >= lost.atNanos() && !event.text("vacant").isEmpty());
    long nextView =
        timeline.at(
            Kind.VIEW_MADE, event -> event.atNanos() > view && event.text("vacant").isEmpty());
    long plan = timeline.at(Kind.PLAN_MADE, event -> event.atNanos() >= nextView);
    double toAll = millis(closed, view) + millis(nextView, plan);
    double restore = millis(joined, restored.atNanos());

    Map<String, Double> parts = new LinkedHashMap<>();
    parts.put("kill -> training goes on", millis(struck, caughtUp));
    parts.put("  kill -> its sockets are closed (kernel)", millis(struck, closed));
    parts.put("  sockets closed -> declared lost", millis(closed, lost.atNanos()));
    parts.put("  declared lost -> new process asks for the seat", millis(lost.atNanos(), joined));
    parts.put("  seat -> checkpoint at the newcomer", restore);
    parts.put(
        "  checkpoint -> worker connected", millis(restored.atNanos(), moments.connectedNanos()));
    parts.put("  reload: rows and matrix", millis(moments.connectedNanos(), moments.readNanos()));
    parts.put("  XGBoost's sketch and model load", millis(moments.readNanos(), entered));
    parts.put("  replay of the round", millis(entered, caughtUp));
    parts.put("checkpoint of the struck round", restored.number("bytes") / 1e3);
    parts.put("our own part", toAll + restore + ourReplay);
    parts.put("  sockets closed -> view at all agents", toAll);
    parts.put("  registration -> checkpoint bytes", restore);
    parts.put("  processor time of our threads in replay", ourReplay);
    return parts;
  }

  private static boolean isSecond(TrainingEvent event) {
    return event.fields().containsKey("incarnation")
        && event.number("incarnation") == 1
        && event.rank().orElse(-1) == STRUCK;
  }

  private static long processorTime(List<WorkerProcess> seated, WorkerProcess standby) {
    long sum = ThreadTimes.of(standby.pid(), "rejoin-");
    for (int rank = 0; rank < WORLD; rank++) {
      sum += rank == STRUCK ? 0 : ThreadTimes.of(seated.get(rank).pid(), "rejoin-");
    }
    return sum;
  }

  private static double millis(long from, long to) {
    return (to - from) / 1e6;
  }
}
