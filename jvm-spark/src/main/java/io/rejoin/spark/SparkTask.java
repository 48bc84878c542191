package io.rejoin.spark;

import io.rejoin.Agent;
import io.rejoin.GangTask;
import io.rejoin.ProcessAgent;
import io.rejoin.RankTask;
import io.rejoin.settings.CommonSettings;
import java.net.InetAddress;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * A task of the gang on its Spark executor. Its rank is the number of its partition, or, in a gang
 * with spares or whose world may change, what it is given.
 */
final class SparkTask implements GangTask.Place {
  private final TaskContext context;
  private final SparkEnv env = SparkEnv.get();

  SparkTask(TaskContext context) {
    this.context = context;
  }

  /**
   * Trains as the rank that it is, or is given, also if that becomes another one; returns at once
   * when the job is over before.
   */
  void asRank(GangTask gang, ProcessAgent agent, Consumer<RankTask> training) {
    if (!SparkSettings.givesRanks(gang.settings())) {
      training.accept(own(gang));
    } else {
      agent.asRank(own(gang), this, training);
    }
  }

  /**
   * The rank that a process beside the task takes part as: its own, or what it is given; empty when
   * the job is over before.
   */
  Optional<RankTask> givenRank(GangTask gang) {
    RankTask own = own(gang);
    if (!SparkSettings.givesRanks(gang.settings())) {
      return Optional.of(own);
    }
    AtomicReference<Optional<RankTask>> given = new AtomicReference<>();
    gang.run(
        this,
        Agent.class,
        Agent::open,
        agent -> {
          context.addTaskCompletionListener((TaskCompletionListener) ended -> agent.standDown(own));
          given.set(agent.givenRank(own, this));
        });
    return given.get();
  }

  /** By the number of its partition. */
  RankTask own(GangTask gang) {
    long members = gang.settings().number(CommonSettings.MEMBERS_TIMEOUT);
    return new RankTask(
        context.partitionId(),
        context.stageAttemptNumber(),
        context.attemptNumber(),
        members,
        members);
  }

  @Override
  public String executor() {
    return env.executorId();
  }

  @Override
  public String hostname() {
    if (env.blockManager().blockManagerId().isDriver()) {
      return InetAddress.getLoopbackAddress().getHostAddress();
    }
    return env.blockManager().blockManagerId().host();
  }

  @Override
  public String spillDirectory() {
    return env.blockManager().diskBlockManager().localDirs()[0].getPath();
  }

  @Override
  public boolean firstTry() {
    return context.stageAttemptNumber() == 0 && context.attemptNumber() == 0;
  }

  @Override
  public Optional<String> cancelled() {
    return context.isInterrupted() ? Optional.of("Spark ended its task") : Optional.empty();
  }
}
