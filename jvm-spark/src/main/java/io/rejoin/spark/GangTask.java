package io.rejoin.spark;

import io.rejoin.Agent;
import io.rejoin.Agents;
import io.rejoin.JobId;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.Secret;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.Seat;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingSpec;
import java.io.File;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * What a task of the gang does, on its executor: it takes part as the rank of its partition until
 * the job's end. It carries the job's secret, inside Spark's own traffic.
 */
final class GangTask implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final long END_SECONDS = 10;
  private static final long POLL_MILLIS = 20;

  private final JobId job;
  private final Secret secret;
  private final Agent.Settings agentSettings;
  private final TrainingSpec spec;
  private final SettingValues settings;

  GangTask(
      JobId job,
      Secret secret,
      Agent.Settings agentSettings,
      TrainingSpec spec,
      SettingValues settings) {
    this.job = job;
    this.secret = secret;
    this.agentSettings = agentSettings;
    this.spec = spec;
    this.settings = settings;
  }

  /** Trains; returns at the job's end. */
  void run(TaskContext context, Matrices.Source source) {
    NativeLibrary.logLevel(settings.text(CommonSettings.LOG_LEVEL));
    SparkEnv env = SparkEnv.get();
    String host = env.blockManager().blockManagerId().host();
    // It is there, and Spark removes it; logs are files without a name, so they need no folder of
    // their own.
    File spill = env.blockManager().diskBlockManager().localDirs()[0];
    Agent.Settings here =
        agentSettings
            .copy()
            .place(env.executorId(), address(host), host)
            .spillDirectory(spill.getPath());
    Agent agent = agent(env.executorId(), here, context);
    Seat seat =
        new Seat(
            context.partitionId(),
            context.stageAttemptNumber(),
            context.attemptNumber(),
            settings.number(CommonSettings.MEMBERS_TIMEOUT),
            settings.number(CommonSettings.MEMBERS_TIMEOUT));
    try {
      new TrainingLoop(agent, spec)
          .run(
              seat,
              source,
              () ->
                  context.isInterrupted() ? Optional.of("Spark ended its task") : Optional.empty());
    } catch (RejoinException e) {
      if (e.code().willRepeat()) {
        awaitTheEnd(context, System.nanoTime() + TimeUnit.SECONDS.toNanos(END_SECONDS));
      }
      throw e;
    }
  }

  /**
   * The tracker knows of a failure that will repeat, and the driver is about to end the job. If the
   * task failed before that, Spark would try it again for nothing.
   */
  private static void awaitTheEnd(TaskContext context, long deadline) {
    while (!isOver(context, deadline)) {
      pause();
    }
  }

  private static boolean isOver(TaskContext context, long deadline) {
    return context.isInterrupted()
        || Thread.currentThread().isInterrupted()
        || System.nanoTime() >= deadline;
  }

  private static void pause() {
    try {
      Thread.sleep(POLL_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * A range of ports that doesn't suffice at the very start won't do so later. After a death it
   * may: what died, or is frozen, may hold its port for a moment. So a later try waits for a port,
   * for as long as the driver may need to hear (on Spark's bus) of a first try that failed, and to
   * end the job: it would use up Spark's tries for nothing otherwise.
   */
  private Agent agent(String executor, Agent.Settings here, TaskContext context) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(END_SECONDS);
    while (true) {
      try {
        return Agents.of(job, executor, secret, here);
      } catch (RejoinException e) {
        if (context.stageAttemptNumber() == 0 && context.attemptNumber() == 0) {
          throw settings.portsAreTaken(CommonSettings.AGENT_PORTS, e);
        }
        if (e.code().willRepeat()) {
          awaitTheEnd(context, deadline);
        }
        if (e.code() != RejoinException.Code.IO || isOver(context, deadline)) {
          throw e;
        }
      }
      pause();
    }
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
