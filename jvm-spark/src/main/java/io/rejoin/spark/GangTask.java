package io.rejoin.spark;

import io.rejoin.Agent;
import io.rejoin.Agents;
import io.rejoin.JobId;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.Seat;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingSpec;
import java.io.File;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Optional;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * What a task of the gang does, on its executor: it takes part as the rank of its partition until
 * the job's end. It carries the job's secret, inside Spark's own traffic.
 */
final class GangTask implements Serializable {
  private static final long serialVersionUID = 1L;

  private final JobId job;
  private final Secret secret;
  private final Agent.Settings agentSettings;
  private final TrainingSpec spec;
  private final long joinMillis;
  private final long finishMillis;
  private final String logLevel;

  GangTask(
      JobId job,
      Secret secret,
      Agent.Settings agentSettings,
      TrainingSpec spec,
      Settings settings) {
    this.job = job;
    this.secret = secret;
    this.agentSettings = agentSettings;
    this.spec = spec;
    this.joinMillis = settings.membersMillis();
    this.finishMillis = settings.membersMillis();
    this.logLevel = settings.logLevel();
  }

  /** Trains; returns at the job's end. */
  void run(TaskContext context, Matrices.Source source) {
    NativeLibrary.logLevel(logLevel);
    SparkEnv env = SparkEnv.get();
    String host = env.blockManager().blockManagerId().host();
    File spill =
        new File(env.blockManager().diskBlockManager().localDirs()[0], "rejoin-" + job.brief());
    Agent.Settings settings =
        agentSettings
            .copy()
            .place(env.executorId(), address(host), host)
            .spillDirectory(spill.getPath());
    Agent agent = Agents.of(job, env.executorId(), secret, settings);
    Seat seat =
        new Seat(
            context.partitionId(),
            context.stageAttemptNumber(),
            context.attemptNumber(),
            joinMillis,
            finishMillis);
    new TrainingLoop(agent, spec)
        .run(
            seat,
            source,
            () -> context.isInterrupted() ? Optional.of("Spark ended its task") : Optional.empty());
  }

  /** The address of a host by the name that Spark uses for it. */
  static String address(String host) {
    try {
      return InetAddress.getByName(host).getHostAddress();
    } catch (UnknownHostException e) {
      throw new RejoinException(
          RejoinException.Code.IO,
          "the host name " + host + ", by which Spark knows this machine, has no address",
          e);
    }
  }
}
