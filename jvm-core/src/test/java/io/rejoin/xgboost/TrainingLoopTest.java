package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Agent;
import io.rejoin.JobId;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TrainingLoopTest {
  private static final int WORLD = 2;
  private static final int ROUNDS = 5;
  private static final int ROWS = 200;
  private static final int COLUMNS = 3;
  private static final long PATIENCE_MILLIS = 60_000;

  @TempDir Path spill;

  /** Trains on threads of this process; the listeners are the ranks'. Returns the model. */
  private byte[] train(List<IntConsumer> listeners) throws Exception {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    ExecutorService threads = Executors.newFixedThreadPool(WORLD);
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(WORLD, "127.0.0.1"));
        Agent agent =
            Agent.open(
                job,
                secret,
                new Agent.Settings(tracker.address())
                    .place("here", "127.0.0.1", "localhost")
                    .spillDirectory(spill.toString()))) {
      List<Future<?>> ranks = new ArrayList<>();
      for (int rank = 0; rank < WORLD; rank++) {
        int mine = rank;
        ranks.add(
            threads.submit(
                () ->
                    new TrainingLoop(agent, spec())
                        .onProgress(listeners.get(mine))
                        .run(
                            new Seat(mine, 0, 0, PATIENCE_MILLIS, PATIENCE_MILLIS),
                            () -> new Rows(mine),
                            Optional::empty)));
      }
      for (Future<?> rank : ranks) {
        try {
          rank.get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException failed) {
          // So that the other rank doesn't wait for a retry that won't come.
          tracker.cancel(RejoinException.Code.CANCELLED, "a rank failed");
          throw (Exception) failed.getCause();
        }
      }
      awaitEnd(tracker);
      return TrainingResult.of(tracker.result()).model();
    } finally {
      threads.shutdown();
      assertTrue(threads.awaitTermination(PATIENCE_MILLIS, TimeUnit.MILLISECONDS));
    }
  }

  private static void awaitEnd(Tracker tracker) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MILLIS);
    while (tracker.poll(100).map(TrainingEvent::kind).orElse(null)
        != TrainingEvent.Kind.JOB_ENDED) {
      assertTrue(System.nanoTime() < deadline, "the job's end is not told");
    }
  }

  private static TrainingSpec spec() {
    return new TrainingSpec(
        WORLD,
        ROUNDS,
        Map.of("objective", "binary:logistic", "max_depth", 3, "nthread", 1),
        CheckpointRhythm.of(XgboostVersion.loaded(), 2, 0));
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

  @Test
  void each_rank_tells_of_the_beginning_and_of_each_round_and_the_model_is_the_same()
      throws Exception {
    List<List<Integer>> told = List.of(new ArrayList<>(), new ArrayList<>());
    byte[] model = train(List.of(told.get(0)::add, told.get(1)::add));
    assertEquals(List.of(0, 1, 2, 3, 4, 5), told.get(0));
    assertEquals(told.get(0), told.get(1));
    assertArrayEquals(train(List.of(rounds -> {}, rounds -> {})), model);
  }

  @Test
  void a_listener_that_throws_ends_its_rank_with_what_it_threw() {
    IntConsumer broken =
        rounds -> {
          if (rounds == 3) {
            throw new IllegalStateException("three is too many");
          }
        };
    RejoinException failure =
        assertThrows(RejoinException.class, () -> train(List.of(broken, rounds -> {})));
    assertTrue(failure.getMessage().contains("three is too many"), failure.getMessage());
  }
}
