package io.rejoin.spark;

import io.rejoin.Agent;
import io.rejoin.GangTask;
import io.rejoin.RankLoop;
import io.rejoin.settings.CommonSettings;
import java.io.Serializable;

/** A user's function as a rank of a gang. */
final class FunctionProgram<T, M extends Serializable> implements GangProgram<T> {
  private static final long serialVersionUID = 1L;

  private final RankFunction<T, M> function;
  private final int workers;

  FunctionProgram(RankFunction<T, M> function, int workers) {
    this.function = function;
    this.workers = workers;
  }

  @Override
  public void run(GangTask gang, SparkTask task, RankInput<T> input) {
    gang.run(
        task,
        Agent.class,
        Agent::open,
        agent ->
            new RankLoop(
                    agent,
                    task.rank(gang),
                    "a function on " + workers + " workers",
                    gang.settings().number(CommonSettings.CALL_TIMEOUT),
                    task)
                .run(ranks -> ModelBytes.write(function.train(ranks, input))));
  }

  @Override
  public String checkpointAdvice() {
    return "Communicator.checkpoint more often";
  }
}
