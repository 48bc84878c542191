package io.rejoin.it.bench;

import io.rejoin.it.WorkDirectory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Training time, first round to last, with recovery on against XGBoost's own collective, without
 * faults. No Spark: worker processes, and threads of one of them; the same loop on both sides; each
 * pair in the same warm JVMs. The time is taken on both sides by the thread that trains, from
 * before its first round to after its last; the checkpoints between ours are in it. The slowest
 * rank counts. Both models have to be equal.
 *
 * <p>First through the hook, over four sets of data; then through the bridge. On several hosts: the
 * hook alone, four ranks.
 */
final class TrainingBench {
  private static final double HOOK_BAR = 1.02;
  private static final double BRIDGE_BAR = 2.0;
  private static final double HOSTS_BAR = 0.85;
  private static final int[] WORLDS = {2, 4, 8};
  private static final int HOSTS_WORLD = 4;

  private final List<Host> hosts = Host.all();
  private final List<WorkerProcess> processes = new ArrayList<>();

  void run() throws Exception {
    WorkDirectory work = WorkDirectory.fresh("bench-training");
    try {
      int most = hosts.size() > 1 ? HOSTS_WORLD : WORLDS[WORLDS.length - 1];
      for (int i = 0; i < most; i++) {
        // Neighbouring ranks are on one host, as a scheduler would place them.
        Host host = hosts.get(i * hosts.size() / most);
        processes.add(
            WorkerProcess.start("trainer-" + i, hosts.get(0), host, work, "512m", Map.of()));
      }
      if (hosts.size() > 1) {
        for (Shape shape : shapes(HOSTS_WORLD)) {
          train("on " + hosts.size() + " hosts", shape, false, true, HOSTS_BAR);
        }
        return;
      }
      for (boolean threads : new boolean[] {false, true}) {
        for (int world : WORLDS) {
          for (Shape shape : shapes(world)) {
            train("hook", shape, threads, true, HOOK_BAR);
          }
        }
        for (int world : new int[] {2, 4}) {
          train("bridge", shapes(world).get(0), threads, false, BRIDGE_BAR);
          train("bridge", shapes(world).get(2), threads, false, BRIDGE_BAR);
        }
      }
    } finally {
      processes.forEach(WorkerProcess::close);
    }
  }

  /** The sets of data; the longer a round takes, the fewer there are. */
  private static List<Shape> shapes(int world) {
    return List.of(
        new Shape(100_000, 50, world, Bench.rounds(20)),
        new Shape(100_000, 50, 10, world, Bench.rounds(10)),
        new Shape(20_000, 10, world, Bench.rounds(100)),
        new Shape(20_000, 500, world, Bench.rounds(10)));
  }

  private void train(String way, Shape shape, boolean threads, boolean hook, double bar)
      throws Exception {
    String name = way + ": " + shape + (threads ? " as threads" : " as processes");
    if (!Bench.wants(name)) {
      return;
    }
    Trainings trainings = new Trainings(hosts.get(0), processes, shape, threads);
    List<Pairs.Pair<Trainings.Run>> pairs =
        Pairs.of(Bench.pairs(), () -> trainings.rejoin(hook), trainings::stock);
    for (Pairs.Pair<Trainings.Run> pair : pairs) {
      if (!pair.ours().digest().equals(pair.theirs().digest())) {
        throw new IllegalStateException(name + ": the models differ: " + pair);
      }
    }
    Bench.report(name, "ms", pairs, Trainings.Run::millis, bar);
    Bench.report(name + ", a round", "ms", pairs, Trainings.Run::roundMillis, null);
    // With what waits to be used again, a quarter more than the limit.
    double logs = Shape.LOG_BYTES * 1.25 / 1e6;
    Bench.report(name + ", logs of an agent", "MB", pairs, Trainings.Run::logMegabytes, logs);
    Bench.report(name + ", memory of all", "MB", pairs, Trainings.Run::peakMegabytes, null);
  }
}
