package io.rejoin.spark;

import io.rejoin.Agent;
import io.rejoin.GangTask;
import io.rejoin.RankLoop;
import io.rejoin.RankTask;
import io.rejoin.settings.CommonSettings;
import java.io.Serializable;
import java.util.Collections;
import java.util.Iterator;

/** A user's function as a rank of a gang. */
final class FunctionProgram<T, M extends Serializable> implements GangProgram<T> {
  private static final long serialVersionUID = 1L;

  private final RankFunction<T, M> function;
  private final int workers;
  private final DurableFolder durable;

  /** {@code durable}: null for none. */
  FunctionProgram(RankFunction<T, M> function, int workers, DurableFolder durable) {
    this.function = function;
    this.workers = workers;
    this.durable = durable;
  }

  @Override
  public Iterator<byte[]> run(GangTask gang, SparkTask task, RankInputs<T> inputs) {
    gang.run(
        task,
        Agent.class,
        (job, secret, settings) ->
            Agent.open(job, secret, settings, DurableFolder.checkpoints(durable)),
        agent -> task.asRank(gang, agent, rank -> run(gang, task, agent, rank, inputs)));
    return Collections.emptyIterator();
  }

  private void run(
      GangTask gang, SparkTask task, Agent agent, RankTask rank, RankInputs<T> inputs) {
    new RankLoop(
            agent,
            rank,
            "a function on " + workers + " workers",
            gang.settings().number(CommonSettings.CALL_TIMEOUT),
            task)
        .run(
            ranks ->
                ModelBytes.write(function.train(ranks, inputs.of(rank.rank(), ranks.world()))));
  }

  @Override
  public String checkpointAdvice() {
    return "Communicator.checkpoint more often";
  }
}
