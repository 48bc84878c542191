package io.rejoin.spark;

import io.rejoin.GangTask;
import io.rejoin.settings.CommonSettings;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.RankTask;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostAgent;
import java.io.Serializable;
import java.util.Optional;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * A task of the gang on its Spark executor: it takes part as the rank of its partition until the
 * job's end.
 */
final class SparkTask implements Serializable {
  private static final long serialVersionUID = 1L;

  private final GangTask task;
  private final TrainingSpec spec;

  SparkTask(GangTask task, TrainingSpec spec) {
    this.task = task;
    this.spec = spec;
  }

  /** Trains; returns at the job's end. */
  void run(TaskContext context, Matrices.Source source) {
    long members = task.settings().number(CommonSettings.MEMBERS_TIMEOUT);
    RankTask rankTask =
        new RankTask(
            context.partitionId(),
            context.stageAttemptNumber(),
            context.attemptNumber(),
            members,
            members);
    Place place = new Place(context);
    task.run(
        place,
        XgboostAgent.class,
        XgboostAgent::open,
        agent -> new TrainingLoop(agent, spec).run(rankTask, source, place));
  }

  /** The executor that a task runs at, as the gang's task sees it. */
  private static final class Place implements GangTask.Place {
    private final TaskContext context;
    private final SparkEnv env = SparkEnv.get();

    Place(TaskContext context) {
      this.context = context;
    }

    @Override
    public String executor() {
      return env.executorId();
    }

    @Override
    public String hostname() {
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
}
