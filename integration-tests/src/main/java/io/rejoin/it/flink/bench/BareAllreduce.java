package io.rejoin.it.flink.bench;

import io.rejoin.Agent;
import io.rejoin.AgentSettings;
import io.rejoin.Communicator;
import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.it.bench.Host;
import io.rejoin.it.bench.Work;
import java.io.Serializable;

/** One rank of {@link AllreduceBench} in a process without Flink; gives its nanoseconds. */
final class BareAllreduce implements Work {
  private static final long serialVersionUID = 1L;
  private static final Communicator.Limits LIMITS = new Communicator.Limits(60_000, 60_000, 60_000);

  private final JobId job;
  private final Secret secret;
  private final String tracker;
  private final int rank;
  private final int warmup;
  private final int counted;

  BareAllreduce(JobId job, Secret secret, String tracker, int rank, int warmup, int counted) {
    this.job = job;
    this.secret = secret;
    this.tracker = tracker;
    this.rank = rank;
    this.warmup = warmup;
    this.counted = counted;
  }

  @Override
  public Serializable run() {
    String address = Host.HERE.address();
    AgentSettings settings =
        new AgentSettings(tracker)
            .place("bare-" + ProcessHandle.current().pid(), address, address)
            .spillDirectory(System.getProperty("java.io.tmpdir"));
    try (Agent agent = Agent.open(job, secret, settings);
        Communicator ranks = agent.join(rank, 0, 0, "bare", LIMITS).orElseThrow()) {
      ranks.load();
      float[] numbers = AllreduceBench.numbers();
      byte[] model = new byte[Integer.BYTES];
      long began = 0;
      for (int step = 0; step < warmup + counted; step++) {
        began = step == warmup ? System.nanoTime() : began;
        AllreduceBench.allreduce(ranks, numbers);
        ranks.checkpoint(model);
      }
      long nanos = System.nanoTime() - began;
      ranks.finish(model);
      return nanos;
    }
  }
}
