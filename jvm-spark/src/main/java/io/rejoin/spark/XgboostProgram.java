package io.rejoin.spark;

import io.rejoin.GangTask;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostAgent;
import java.util.Collections;
import java.util.Iterator;

/** XGBoost's training loop as a rank of a gang, which reads the rank's matrices. */
final class XgboostProgram implements GangProgram<Matrices> {
  private static final long serialVersionUID = 1L;

  private final TrainingSpec spec;
  private final DurableFolder durable;

  /** {@code durable}: null for none. */
  XgboostProgram(TrainingSpec spec, DurableFolder durable) {
    this.spec = spec;
    this.durable = durable;
  }

  @Override
  public Iterator<byte[]> run(GangTask gang, SparkTask task, RankInputs<Matrices> inputs) {
    gang.run(
        task,
        XgboostAgent.class,
        (job, secret, settings) ->
            XgboostAgent.open(job, secret, settings, DurableFolder.checkpoints(durable)),
        agent ->
            task.asRank(
                gang,
                agent,
                rank ->
                    new TrainingLoop(agent, spec)
                        .run(
                            rank, world -> inputs.of(rank.rank(), world).iterator().next(), task)));
    return Collections.emptyIterator();
  }

  @Override
  public int rounds() {
    return spec.rounds();
  }

  @Override
  public long nativeBytes(long pageBytes) {
    return ExecutorMemory.matrixBytes(pageBytes);
  }

  @Override
  public String checkpointAdvice() {
    return "spark.rejoin.checkpoint.rounds";
  }
}
