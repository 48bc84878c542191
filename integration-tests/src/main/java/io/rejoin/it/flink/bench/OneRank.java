package io.rejoin.it.flink.bench;

import io.rejoin.Agent;
import io.rejoin.AgentSettings;
import io.rejoin.Communicator;
import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;

/** The only rank of a job: its collectives give back what they are given. */
final class OneRank implements AutoCloseable {
  private static final Communicator.Limits LIMITS = new Communicator.Limits(60_000, 60_000, 60_000);

  private final Tracker tracker;
  private final Agent agent;
  private final Communicator communicator;

  private OneRank(Tracker tracker, Agent agent) {
    this.tracker = tracker;
    this.agent = agent;
    communicator = agent.join(0, 0, 0, "alone", LIMITS).orElseThrow();
    communicator.load();
  }

  static OneRank open() {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(1, "127.0.0.1"));
    AgentSettings settings =
        new AgentSettings(tracker.address()).place("alone", "127.0.0.1", "localhost");
    return new OneRank(tracker, Agent.open(job, secret, settings));
  }

  Communicator communicator() {
    return communicator;
  }

  @Override
  public void close() {
    communicator.close();
    agent.close();
    tracker.close();
  }
}
