package io.rejoin.it.bench;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.NativeLibrary;
import io.rejoin.RankTask;
import io.rejoin.Secret;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.XgboostAgent;
import java.io.Serializable;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import ml.dmlc.xgboost4j.java.DMatrix;

/** So many ranks of a training with Rejoin, from this one on: one agent. */
final class RejoinWork implements Work {
  private static final long serialVersionUID = 1L;
  private static final long WAIT_LIMIT_MILLIS = 60_000;

  private final JobId job;
  private final Secret secret;
  private final AgentSettings settings;
  private final String address;
  private final Shape shape;
  private final int first;
  private final int ranks;

  RejoinWork(
      JobId job,
      Secret secret,
      AgentSettings settings,
      String address,
      Shape shape,
      int first,
      int ranks) {
    this.job = job;
    this.secret = secret;
    this.settings = settings;
    this.address = address;
    this.shape = shape;
    this.first = first;
    this.ranks = ranks;
  }

  @Override
  public Serializable run() throws Exception {
    NativeLibrary.logLevel(System.getProperty("rejoin.bench.log", "error"));
    String name = "worker-" + ProcessHandle.current().pid();
    AgentSettings here =
        settings
            .copy()
            .place(name, address, address)
            .spillDirectory(System.getProperty("java.io.tmpdir"));
    try (XgboostAgent agent = XgboostAgent.open(job, secret, here)) {
      return Ranks.run(ranks, place -> () -> train(agent, first + place));
    }
  }

  private RoundClock train(XgboostAgent agent, int rank) throws Exception {
    RoundClock clock = new RoundClock(shape.rounds());
    new TrainingLoop(agent, shape.spec(ranks))
        .onProgress(clock)
        .run(
            new RankTask(rank, 0, 0, WAIT_LIMIT_MILLIS, WAIT_LIMIT_MILLIS),
            () -> new Owned(shape.matrix(shape.part(rank))),
            Optional::empty);
    return clock;
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
