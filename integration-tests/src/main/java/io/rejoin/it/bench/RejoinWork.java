package io.rejoin.it.bench;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.NativeLibrary;
import io.rejoin.Secret;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.Seat;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.XgboostAgent;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import ml.dmlc.xgboost4j.java.DMatrix;

/** So many ranks of a training with Rejoin: one agent, each rank on a thread of its own. */
final class RejoinWork implements Work {
  private static final long serialVersionUID = 1L;
  private static final long PATIENCE_MILLIS = 60_000;

  /** In the place of a checkpoint's rounds: {@link UnrecoverableLoop}. */
  static final int UNRECOVERABLE = -1;

  private final JobId job;
  private final Secret secret;
  private final AgentSettings settings;
  private final String address;
  private final Shape shape;
  private final int checkpointRounds;
  private final ArrayList<Integer> ranks;
  private final int attempt;

  /**
   * {@code checkpointRounds}: 0 for the default, or {@link #UNRECOVERABLE}; {@code attempt}: which
   * try of these ranks it is.
   */
  RejoinWork(
      JobId job,
      Secret secret,
      AgentSettings settings,
      String address,
      Shape shape,
      int checkpointRounds,
      List<Integer> ranks,
      int attempt) {
    this.job = job;
    this.secret = secret;
    this.settings = settings;
    this.address = address;
    this.shape = shape;
    this.checkpointRounds = checkpointRounds;
    this.ranks = new ArrayList<>(ranks);
    this.attempt = attempt;
  }

  /**
   * One rank's moments, on the clock of {@link System#nanoTime}, which all processes of a machine
   * share.
   *
   * @param rank which
   * @param begunNanos before the agent was started
   * @param connectedNanos the communicator stands
   * @param readNanos the matrix is built
   * @param clock its rounds
   */
  record Moments(int rank, long begunNanos, long connectedNanos, long readNanos, RoundClock clock)
      implements Serializable {}

  @Override
  public Serializable run() throws Exception {
    NativeLibrary.logLevel(System.getProperty("rejoin.bench.log", "error"));
    long begun = System.nanoTime();
    String name = "worker-" + ProcessHandle.current().pid();
    ExecutorService threads = Executors.newFixedThreadPool(ranks.size());
    AgentSettings here =
        settings
            .copy()
            .place(name, address, address)
            .spillDirectory(System.getProperty("java.io.tmpdir"));
    try (XgboostAgent agent = XgboostAgent.open(job, secret, here)) {
      List<Future<Moments>> running = new ArrayList<>();
      for (int rank : ranks) {
        running.add(threads.submit(() -> train(agent, rank, begun)));
      }
      ArrayList<Moments> results = new ArrayList<>();
      for (Future<Moments> one : running) {
        results.add(one.get());
      }
      return results;
    } catch (ExecutionException failed) {
      throw new IllegalStateException("a rank of the training failed", failed.getCause());
    } finally {
      threads.shutdown();
    }
  }

  private Moments train(XgboostAgent agent, int rank, long begun) throws Exception {
    if (checkpointRounds == UNRECOVERABLE) {
      RoundClock clock = UnrecoverableLoop.train(agent, shape, rank, PATIENCE_MILLIS);
      return new Moments(rank, begun, begun, begun, clock);
    }
    long[] moments = new long[2];
    RoundClock clock = new RoundClock(shape.rounds());
    Matrices.Source source =
        () -> {
          moments[0] = System.nanoTime();
          DMatrix matrix = shape.matrix(shape.part(rank));
          moments[1] = System.nanoTime();
          return new Owned(matrix);
        };
    new TrainingLoop(agent, shape.spec(checkpointRounds, ranks.size()))
        .onProgress(clock)
        .run(new Seat(rank, 0, attempt, PATIENCE_MILLIS, PATIENCE_MILLIS), source, Optional::empty);
    return new Moments(rank, begun, moments[0], moments[1], clock);
  }

  private record Owned(DMatrix matrix) implements Matrices {
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
