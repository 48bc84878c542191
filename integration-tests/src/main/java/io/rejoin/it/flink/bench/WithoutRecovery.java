package io.rejoin.it.flink.bench;

import io.rejoin.Agent;
import io.rejoin.AgentSettings;
import io.rejoin.Communicator;
import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.flink.trainers.LogisticRegressionModel;
import io.rejoin.it.bench.Host;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * What is left of our operator when nobody has to come back: the same ranks, engine, trainer and
 * threads, and batches of the same rows; before each one ranks say how many rows they have. Rows
 * have no number, hash or fingerprint and aren't kept, the model isn't written, and a version's
 * checkpoint is a byte. The engine still records results until all have entered the next version,
 * as it has no way without. The tracker is in this process.
 */
final class WithoutRecovery implements Training {
  // As many as a rank of ours keeps ready.
  private static final int BATCHES = 4;
  private static final long MILLIS = 60_000;

  private Tracker tracker;

  @Override
  public void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock) {
    if (tracker != null) {
      tracker.close();
    }
    JobId job = JobId.random();
    Secret secret = Secret.random();
    int world = environment.getParallelism();
    tracker = Tracker.open(job, secret, new Tracker.Settings(world, Host.HERE.address()));
    environment
        .fromSource(
            rows, WatermarkStrategy.noWatermarks(), "rows", TypeInformation.of(LabeledRow.class))
        .process(new Rank(job, secret, tracker.address(), clock))
        .returns(Types.INT)
        .sinkTo(new DiscardingSink<>());
  }

  private static final class Rank extends ProcessFunction<LabeledRow, Integer> {
    private static final long serialVersionUID = 1L;
    private static final Communicator.Limits LIMITS =
        new Communicator.Limits(MILLIS, MILLIS, MILLIS);

    private final JobId job;
    private final Secret secret;
    private final String address;
    private final StepClock clock;
    private transient BlockingQueue<List<LabeledRow>> batches;
    private transient List<LabeledRow> batch;
    private transient Thread trainer;
    private transient volatile Exception failure;

    Rank(JobId job, Secret secret, String address, StepClock clock) {
      this.job = job;
      this.secret = secret;
      this.address = address;
      this.clock = clock;
    }

    @Override
    public void open(OpenContext context) {
      int rank = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
      batches = new ArrayBlockingQueue<>(BATCHES);
      batch = new ArrayList<>(BATCH);
      trainer = new Thread(() -> run(rank), "rank-" + rank);
      trainer.setContextClassLoader(Rank.class.getClassLoader());
      trainer.start();
    }

    private void run(int rank) {
      try {
        train(rank);
      } catch (Exception e) {
        failure = e;
      }
    }

    private void train(int rank) throws Exception {
      String host = Host.HERE.address();
      AgentSettings settings =
          new AgentSettings(address)
              .place("rank-" + rank, host, host)
              .spillDirectory(System.getProperty("java.io.tmpdir"));
      try (Agent agent = Agent.open(job, secret, settings);
          Communicator ranks = agent.join(rank, 0, 0, "no recovery", LIMITS).orElseThrow()) {
        ranks.load();
        LogisticRegressionModel model = OurTraining.TRAINER.open(null);
        byte[] nothing = new byte[1];
        for (int step = 0; step < clock.steps(); step++) {
          List<LabeledRow> next = batches.take();
          ranks.allgather(new long[] {next.size()});
          model = OurTraining.TRAINER.onBatch(next, ranks, model);
          ranks.checkpoint(nothing);
          clock.step("rank-" + rank);
        }
        ranks.finish(nothing);
      }
    }

    @Override
    public void processElement(LabeledRow row, Context context, Collector<Integer> out)
        throws Exception {
      batch.add(row);
      if (batch.size() == BATCH) {
        while (!batches.offer(batch, 1, TimeUnit.SECONDS)) {
          failIfTrainerHas();
        }
        batch = new ArrayList<>(BATCH);
      }
    }

    private void failIfTrainerHas() throws Exception {
      if (failure != null) {
        throw failure;
      }
    }

    @Override
    public void close() throws Exception {
      if (trainer != null) {
        trainer.join(MILLIS);
        trainer.interrupt();
        failIfTrainerHas();
      }
    }
  }
}
