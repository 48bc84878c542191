package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.RankTask;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;

/** A small training of two ranks, on threads of this process. */
final class SmallTraining {
  private static final int WORLD = 2;
  private static final int ROUNDS = 5;
  private static final int ROWS = 200;
  private static final int COLUMNS = 3;
  private static final long WAIT_LIMIT_MILLIS = 300_000;

  private final Path spill;
  private final List<TrainingEvent> events = new ArrayList<>();
  private Map<String, Object> parameters = Map.of("objective", "binary:logistic");
  private int retries;

  SmallTraining(Path spill) {
    this.spill = spill;
  }

  /** Other parameters of XGBoost's than those of a binary classifier. */
  SmallTraining parameters(Map<String, Object> other) {
    parameters = other;
    return this;
  }

  /** How often each rank is tried again; without it a failure of one is the training's. */
  SmallTraining retries(int retries) {
    this.retries = retries;
    return this;
  }

  /**
   * Trains, and returns in words that every class loader has which way XGBoost's collectives went,
   * why, and the model.
   */
  static Map<String, String> reported(String spill) throws Exception {
    SmallTraining training = new SmallTraining(Path.of(spill));
    byte[] model = training.train(List.of(rounds -> {}, rounds -> {}));
    TrainingEvent agreed = training.agreed();
    Map<String, String> reported = new LinkedHashMap<>();
    reported.put("hooked", agreed.text("hooked"));
    reported.put("reason", agreed.text("reason"));
    reported.put("model", new BigInteger(1, model).toString(16));
    return reported;
  }

  /** Which way XGBoost's collectives went. */
  private TrainingEvent agreed() {
    return events.stream()
        .filter(event -> event.kind() == TrainingEvent.Kind.HOOK_AGREED)
        .findFirst()
        .orElseThrow(
            () ->
                new IllegalStateException("the agreement on the hook is not reported: " + events));
  }

  /** What the driver was shown of the ranks' texts. */
  List<String> printed() {
    return events.stream()
        .filter(event -> event.kind() == TrainingEvent.Kind.PRINTED)
        .map(event -> event.sentence("rank {rank}: {text}"))
        .collect(Collectors.toList());
  }

  /** Trains on threads of this process; the listeners are the ranks'. Returns the model. */
  byte[] train(List<IntConsumer> listeners) throws Exception {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    ExecutorService threads = Executors.newFixedThreadPool(WORLD);
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(WORLD, "127.0.0.1"));
        XgboostAgent agent =
            XgboostAgent.open(
                job,
                secret,
                new AgentSettings(tracker.address())
                    .place("here", "127.0.0.1", "localhost")
                    .spillDirectory(spill.toString()))) {
      List<Future<Optional<TrainingResult>>> ranks = new ArrayList<>();
      for (int rank = 0; rank < WORLD; rank++) {
        int mine = rank;
        ranks.add(threads.submit(() -> rank(agent, mine, listeners.get(mine))));
      }
      List<Optional<TrainingResult>> results = new ArrayList<>();
      for (Future<Optional<TrainingResult>> rank : ranks) {
        try {
          results.add(rank.get(WAIT_LIMIT_MILLIS, TimeUnit.MILLISECONDS));
        } catch (ExecutionException failed) {
          // So that the other rank doesn't wait for a retry that won't come.
          tracker.cancel(RejoinException.Code.CANCELLED, "a rank failed");
          throw (Exception) failed.getCause();
        }
      }
      awaitEnd(tracker);
      assertArrayEquals(results.get(0).orElseThrow().toBytes(), tracker.result());
      assertEquals(Optional.empty(), results.get(1));
      return results.get(0).orElseThrow().model();
    } finally {
      threads.shutdown();
      assertTrue(threads.awaitTermination(WAIT_LIMIT_MILLIS, TimeUnit.MILLISECONDS));
    }
  }

  private Optional<TrainingResult> rank(XgboostAgent agent, int rank, IntConsumer listener)
      throws Exception {
    for (int attempt = 0; ; attempt++) {
      try {
        return new TrainingLoop(agent, spec())
            .onProgress(listener)
            .run(
                new RankTask(rank, 0, attempt, WAIT_LIMIT_MILLIS, WAIT_LIMIT_MILLIS),
                () -> new Rows(rank),
                Optional::empty);
      } catch (RejoinException failed) {
        if (attempt == retries) {
          throw failed;
        }
      }
    }
  }

  private void awaitEnd(Tracker tracker) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_LIMIT_MILLIS);
    do {
      assertTrue(System.nanoTime() < deadline, "the job's end is not reported");
      tracker.poll(100).ifPresent(events::add);
    } while (events.stream().noneMatch(e -> e.kind() == TrainingEvent.Kind.JOB_ENDED));
  }

  private TrainingSpec spec() {
    Map<String, Object> all = new LinkedHashMap<>(parameters);
    all.put("max_depth", 3);
    all.put("nthread", 1);
    return new TrainingSpec(WORLD, ROUNDS, all, CheckpointRhythm.of(XgboostVersion.loaded(), 2, 0));
  }

  /** A rank's rows. */
  private static final class Rows implements Matrices {
    private final DMatrix matrix;

    Rows(int rank) throws XGBoostError {
      float[] features = new float[ROWS * COLUMNS];
      float[] labels = new float[ROWS];
      for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
          features[row * COLUMNS + column] = (row * 31 + column * 17 + rank * 7) % 101;
        }
        labels[row] = (features[row * COLUMNS] + features[row * COLUMNS + 1]) > 90 ? 1 : 0;
      }
      matrix = new DMatrix(features, ROWS, COLUMNS, Float.NaN);
      matrix.setLabel(labels);
    }

    @Override
    public Map<String, DMatrix> byName() {
      return Collections.singletonMap("train", matrix);
    }

    @Override
    public void close() {
      matrix.dispose();
    }
  }
}
