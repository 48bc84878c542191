package io.rejoin.it.bench;

import io.rejoin.AgentSettings;
import io.rejoin.Faults;
import io.rejoin.JobId;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import io.rejoin.xgboost.XgboostSettings;
import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * One job on plain processes: a tracker here, ranks dealt out to worker processes in order. It
 * plays the framework, too: {@link #again} is a retry.
 */
final class Cast implements AutoCloseable {
  private static final long CANCEL_SECONDS = 30;

  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();
  private final Shape shape;
  private final int checkpointRounds;
  private final Tracker tracker;
  private final Timeline timeline;
  private final AgentSettings settings;

  /** A job that has not begun. {@code listener} is told of each event. */
  Cast(Shape shape, int checkpointRounds, Faults faults, Consumer<TrainingEvent> listener) {
    this(Host.HERE, shape, checkpointRounds, true, faults, listener);
  }

  /** The same with its tracker on one of several hosts, with the hook (if possible) or without. */
  Cast(
      Host here,
      Shape shape,
      int checkpointRounds,
      boolean hook,
      Faults faults,
      Consumer<TrainingEvent> listener) {
    this.shape = shape;
    this.checkpointRounds = checkpointRounds;
    tracker =
        Tracker.open(
            job, secret, new Tracker.Settings(shape.world(), here.address()).faults(faults));
    timeline = Timeline.of(tracker, listener);
    settings =
        new AgentSettings(tracker.address())
            .with(XgboostSettings.of(Map.of("hook", hook ? "auto" : "off")));
  }

  /** Starts these ranks in this process. */
  CompletableFuture<Serializable> start(WorkerProcess process, List<Integer> ranks) {
    return start(process, ranks, 0);
  }

  /** Starts one rank again. */
  CompletableFuture<Serializable> again(WorkerProcess process, int rank, int attempt) {
    return start(process, List.of(rank), attempt);
  }

  private CompletableFuture<Serializable> start(
      WorkerProcess process, List<Integer> ranks, int attempt) {
    return process.ask(
        new RejoinWork(
            job,
            secret,
            settings,
            process.host().address(),
            shape,
            checkpointRounds,
            ranks,
            attempt));
  }

  /** Ends the job; its ranks end with an error. */
  void cancel(String reason) {
    tracker.cancel(RejoinException.Code.CANCELLED, reason);
    timeline.await(CANCEL_SECONDS);
  }

  /** What was told. */
  Timeline timeline() {
    return timeline;
  }

  /** Rank 0's result, after the end. */
  byte[] result() {
    return tracker.result();
  }

  @Override
  public void close() {
    tracker.close();
  }
}
