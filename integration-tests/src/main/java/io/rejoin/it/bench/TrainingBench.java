package io.rejoin.it.bench;

import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * Training time, first round to last, with recovery on against XGBoost's own collective, without
 * faults. No Spark: worker processes, and threads of one of them; the same loop on both sides; each
 * pair in the same warm JVMs, one after the other, the first one in turn. The time is taken on both
 * sides by the thread that trains, from before its first round to after its last; the checkpoints
 * between ours are in it. The slowest rank counts. Both models are compared, too.
 *
 * <p>First through the hook, over four sets of data; then through the bridge; then the hook with
 * recovery on and as good as off. On several hosts: the hook alone, four ranks.
 */
final class TrainingBench {
  private static final double BRIDGE_BAR = 1.05;
  private static final double HOOK_BAR = 1.02;
  private static final double MEDIAN_BAR = 0.85;
  private static final double LARGE_BAR = 0.75;
  private static final double RECOVERY_BAR = 1.02;
  private static final double HOSTS_BAR = 0.85;
  private static final int[] WORLDS = {2, 4, 8};
  private static final int LARGE_WORLD = 8;
  private static final int HOSTS_WORLD = 4;

  private final Report report;
  private final Options options;
  private final List<Host> hosts = Host.all();
  private final List<WorkerProcess> processes = new ArrayList<>();
  private final List<Figure> memory = new ArrayList<>();

  TrainingBench(Report report, Options options) {
    this.report = report;
    this.options = options;
  }

  void run() throws IOException, XGBoostError {
    WorkDirectory work = WorkDirectory.fresh("bench-training");
    try {
      int most = hosts.size() > 1 ? HOSTS_WORLD : LARGE_WORLD;
      for (int i = 0; i < most; i++) {
        // Neighbouring ranks are on one host, as a scheduler would place them.
        Host host = hosts.get(i * hosts.size() / most);
        processes.add(
            WorkerProcess.start("trainer-" + i, hosts.get(0), host, work, "512m", Map.of()));
      }
      if (hosts.size() > 1) {
        overNetwork();
      } else {
        throughHook();
        throughBridge();
        withoutRecovery();
      }
    } finally {
      processes.forEach(WorkerProcess::close);
    }
    if (!memory.isEmpty()) {
      report.title("Memory in these trainings: of one agent, and of all processes beside stock's");
      for (Figure figure : memory) {
        report.add(figure);
      }
    }
  }

  /** The sets of data; the longer a round takes, the fewer there are. */
  private List<Shape> shapes(int world) {
    return List.of(
        new Shape(100_000, 50, world, options.rounds(20)),
        new Shape(100_000, 50, 10, world, options.rounds(10)),
        new Shape(20_000, 10, world, options.rounds(100)),
        new Shape(20_000, 500, world, options.rounds(10)));
  }

  private void throughHook() throws IOException, XGBoostError {
    report.title(
        "Training through the hook, first round to last, milliseconds: Rejoin and XGBoost's own"
            + " collective");
    List<Double> all = new ArrayList<>();
    List<Double> large = new ArrayList<>();
    for (boolean threads : new boolean[] {false, true}) {
      for (int world : WORLDS) {
        for (Shape shape : shapes(world)) {
          Figure figure = config("training", shape, threads, true, HOOK_BAR);
          if (figure != null) {
            all.add(figure.ratio());
            if (world == LARGE_WORLD) {
              large.add(figure.ratio());
            }
          }
        }
      }
    }
    median("median of all " + all.size() + " configurations", all, MEDIAN_BAR);
    median("median of the " + large.size() + " with " + LARGE_WORLD + " ranks", large, LARGE_BAR);
  }

  private void median(String name, List<Double> ratios, double bar) throws IOException {
    if (!ratios.isEmpty()) {
      report.add(Figure.alone("training", name, "of stock", ratios, bar));
    }
  }

  private void throughBridge() throws IOException, XGBoostError {
    report.title("The same through the bridge");
    for (boolean threads : new boolean[] {false, true}) {
      for (int world : new int[] {2, 4}) {
        config("bridge", shapes(world).get(0), threads, false, BRIDGE_BAR);
        config("bridge", shapes(world).get(2), threads, false, BRIDGE_BAR);
      }
    }
  }

  private void withoutRecovery() throws IOException, XGBoostError {
    report.title(
        "Recovery on, and off (checkpoints of one byte, every 8 rounds at most), through the hook,"
            + " milliseconds");
    for (boolean threads : new boolean[] {false, true}) {
      for (Shape shape : shapes(4)) {
        String name = name(shape, threads) + ", recovery on";
        if (options.wants(name)) {
          Trainings trainings = new Trainings(hosts.get(0), processes, shape, threads);
          Pairs pairs =
              Pairs.of(
                  options.pairs(), name, () -> trainings.rejoin(true), trainings::unrecoverable);
          report.add(pairs.millis("recovery-price", name, "off", RECOVERY_BAR));
        }
      }
    }
  }

  private void overNetwork() throws IOException, XGBoostError {
    report.title("Training through the hook on " + hosts.size() + " hosts, milliseconds");
    for (Shape shape : shapes(HOSTS_WORLD)) {
      config("training-hosts", shape, false, true, HOSTS_BAR);
    }
  }

  private static String name(Shape shape, boolean threads) {
    return shape + (threads ? " as threads" : " as processes");
  }

  private Figure config(String bench, Shape shape, boolean threads, boolean hook, double bar)
      throws IOException, XGBoostError {
    String name = name(shape, threads) + (hosts.size() > 1 ? " on " + hosts.size() + " hosts" : "");
    if (!options.wants(name)) {
      return null;
    }
    Trainings trainings = new Trainings(hosts.get(0), processes, shape, threads);
    Pairs pairs = Pairs.of(options.pairs(), name, () -> trainings.rejoin(hook), trainings::stock);
    Figure figure = pairs.millis(bench, name, "stock", bar);
    report.add(figure);
    report.add(pairs.roundMillis(bench, name + ", a round", "stock"));
    memory.add(pairs.logs("memory", name + ", logs", Shape.LOG_BYTES / 1e6));
    memory.add(pairs.checkpoints("memory", name + ", checkpoints"));
    memory.add(pairs.peaks("memory", name + ", peak of all", "stock"));
    return figure;
  }
}
