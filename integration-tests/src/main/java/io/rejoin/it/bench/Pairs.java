package io.rejoin.it.bench;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToDoubleFunction;
import ml.dmlc.xgboost4j.java.XGBoostError;

/** Trainings of two kinds, made in turn. */
final class Pairs {
  /** One training. */
  interface Training {
    /** Trains. */
    Trainings.Run run() throws IOException, XGBoostError;
  }

  private final List<Trainings.Run> ours = new ArrayList<>();
  private final List<Trainings.Run> peers = new ArrayList<>();

  private Pairs() {}

  /** So many pairs, and one more before them that warms the JVMs up. Models have to be equal. */
  static Pairs of(int count, String name, Training ours, Training peer)
      throws IOException, XGBoostError {
    Pairs pairs = new Pairs();
    for (int pair = -1; pair < count; pair++) {
      boolean oursFirst = Figure.oursFirst(pair);
      Trainings.Run first = (oursFirst ? ours : peer).run();
      Trainings.Run second = (oursFirst ? peer : ours).run();
      if (!first.digest().equals(second.digest())) {
        throw new IllegalStateException(
            name + ": the models differ: " + first.digest() + " and " + second.digest());
      }
      if (pair >= 0) {
        pairs.ours.add(oursFirst ? first : second);
        pairs.peers.add(oursFirst ? second : first);
      }
    }
    return pairs;
  }

  /** The trainings' times. */
  Figure millis(String bench, String name, String peer, double bar) {
    return paired(bench, name, "ms", peer, Trainings.Run::millis, bar);
  }

  /** A round's time. */
  Figure roundMillis(String bench, String name, String peer) {
    return paired(bench, name, "ms", peer, Trainings.Run::roundMillis, Double.NaN);
  }

  /** The most memory that all processes had. */
  Figure peaks(String bench, String name, String peer) {
    return paired(bench, name, "MB", peer, Trainings.Run::peakMegabytes, Double.NaN);
  }

  /** What our agents' logs took. */
  Figure logs(String bench, String name, double bar) {
    return Figure.alone(bench, name, "MB", values(ours, Trainings.Run::logMegabytes), bar);
  }

  /** What their checkpoints took. */
  Figure checkpoints(String bench, String name) {
    return Figure.alone(bench, name, "MB", values(ours, Trainings.Run::heldMegabytes), Double.NaN);
  }

  private Figure paired(
      String bench,
      String name,
      String unit,
      String peer,
      ToDoubleFunction<Trainings.Run> value,
      double bar) {
    return Figure.paired(bench, name, unit, values(ours, value), peer, values(peers, value), bar);
  }

  private static List<Double> values(
      List<Trainings.Run> runs, ToDoubleFunction<Trainings.Run> value) {
    return runs.stream().map(run -> value.applyAsDouble(run)).toList();
  }
}
