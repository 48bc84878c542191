package io.rejoin.spark;

import io.rejoin.GangTask;
import io.rejoin.RankTask;
import io.rejoin.settings.CommonSettings;
import java.net.InetAddress;
import java.util.Optional;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/** A task of the gang on its Spark executor, whose rank is the number of its partition. */
final class SparkTask implements GangTask.Place {
  private final TaskContext context;
  private final SparkEnv env = SparkEnv.get();

  SparkTask(TaskContext context) {
    this.context = context;
  }

  /** Which rank it is, and which try. */
  RankTask rank(GangTask gang) {
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
