package io.rejoin.flink;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.RankTask;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.xgboost.CheckpointRhythm;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingResult;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostAgent;
import io.rejoin.xgboost.XgboostVersion;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;

/** The same training without Flink: jvm-core's loop, on dense matrices, on threads. */
final class LoopTraining {
  private static final long LIMIT_MILLIS = 60_000;

  private final Map<String, Object> parameters;
  private final int rounds;
  int earlyStopping;
  float missing = Float.NaN;
  ToDoubleFunction<Example> label = example -> example.label;
  ToDoubleFunction<Example> weight;
  ToLongFunction<Example> group;
  boolean evaluates;

  LoopTraining(Map<String, Object> parameters, int rounds) {
    this.parameters = new LinkedHashMap<>(parameters);
    this.parameters.put("nthread", 1);
    this.rounds = rounds;
  }

  /** Trains on the rows of each rank, in their order. */
  TrainingResult train(List<List<Example>> ranks) throws Exception {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    int world = ranks.size();
    ExecutorService threads = Executors.newFixedThreadPool(world);
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(world, "127.0.0.1"));
        XgboostAgent agent =
            XgboostAgent.open(
                job,
                secret,
                new AgentSettings(tracker.address())
                    .place("here", "127.0.0.1", "localhost")
                    .spillDirectory(System.getProperty("java.io.tmpdir")))) {
      CheckpointRhythm rhythm = CheckpointRhythm.of(XgboostVersion.loaded(), 3, 0);
      TrainingSpec spec =
          new TrainingSpec(world, rounds, parameters, rhythm).earlyStopping(earlyStopping);
      List<Future<Optional<TrainingResult>>> results = new ArrayList<>();
      for (int i = 0; i < world; i++) {
        RankTask task = new RankTask(i, 0, 0, LIMIT_MILLIS, LIMIT_MILLIS);
        List<Example> rows = ranks.get(i);
        results.add(
            threads.submit(
                () ->
                    new TrainingLoop(agent, spec)
                        .run(task, () -> matrices(rows), Optional::empty)));
      }
      for (Future<Optional<TrainingResult>> result : results) {
        result.get();
      }
      return results.get(0).get().orElseThrow();
    } finally {
      threads.shutdownNow();
    }
  }

  private Matrices matrices(List<Example> rows) throws XGBoostError {
    Map<String, DMatrix> byName = new LinkedHashMap<>();
    byName.put("train", matrix(rows, false));
    if (evaluates) {
      byName.put("eval", matrix(rows, true));
    }
    return new Matrices() {
      @Override
      public Map<String, DMatrix> byName() {
        return byName;
      }

      @Override
      public void close() {
        byName.values().forEach(DMatrix::dispose);
      }
    };
  }

  private DMatrix matrix(List<Example> all, boolean held) throws XGBoostError {
    List<Example> rows = new ArrayList<>(all);
    rows.removeIf(example -> evaluates && example.held != held);
    float[] values = new float[rows.size() * Example.FEATURES];
    float[] labels = new float[rows.size()];
    List<Float> weights = new ArrayList<>();
    List<Integer> groups = new ArrayList<>();
    for (int i = 0; i < rows.size(); i++) {
      Example row = rows.get(i);
      for (int j = 0; j < Example.FEATURES; j++) {
        Float value = row.features[j];
        values[i * Example.FEATURES + j] = value == null ? Float.NaN : value;
      }
      labels[i] = (float) label.applyAsDouble(row);
      boolean begins =
          group == null || i == 0 || group.applyAsLong(row) != group.applyAsLong(rows.get(i - 1));
      if (begins) {
        weights.add(weight == null ? 1 : (float) weight.applyAsDouble(row));
        groups.add(0);
      }
      groups.set(groups.size() - 1, groups.get(groups.size() - 1) + 1);
    }
    DMatrix matrix = new DMatrix(values, rows.size(), Example.FEATURES, missing);
    matrix.setLabel(labels);
    if (group != null) {
      matrix.setGroup(groups.stream().mapToInt(Integer::intValue).toArray());
    }
    if (weight != null) {
      float[] each = new float[weights.size()];
      for (int i = 0; i < each.length; i++) {
        each[i] = weights.get(i);
      }
      matrix.setWeight(each);
    }
    return matrix;
  }
}
