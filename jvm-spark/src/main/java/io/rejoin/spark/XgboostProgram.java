package io.rejoin.spark;

import io.rejoin.GangTask;
import io.rejoin.RejoinException;
import io.rejoin.xgboost.Matrices;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingSpec;
import io.rejoin.xgboost.XgboostAgent;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.scala.spark.Watches;

/** XGBoost's training loop as a rank of a gang. */
final class XgboostProgram implements GangProgram<Watches> {
  private static final long serialVersionUID = 1L;

  private final TrainingSpec spec;
  private final int matrices;

  /** With so many matrices at each rank: to train on, and to evaluate on. */
  XgboostProgram(TrainingSpec spec, int matrices) {
    this.spec = spec;
    this.matrices = matrices;
  }

  @Override
  public void run(GangTask gang, SparkTask task, RankInput<Watches> input) {
    gang.run(
        task,
        XgboostAgent.class,
        XgboostAgent::open,
        agent -> new TrainingLoop(agent, spec).run(task.rank(gang), () -> open(input), task));
  }

  @Override
  public String checkpointAdvice() {
    return "spark.rejoin.checkpoint.rounds";
  }

  private Matrices open(RankInput<Watches> input) {
    Iterator<Watches> watches = input.iterator();
    if (!watches.hasNext()) {
      throw new RejoinException(
          RejoinException.Code.TRAINING_FAILED, "the partition of this rank has no rows");
    }
    return new Opened(watches.next(), matrices);
  }

  /** Matrices that belong to the stock class, which frees them. */
  private static final class Opened implements Matrices {
    private final Watches watches;
    private final LinkedHashMap<String, DMatrix> byName = new LinkedHashMap<>();

    Opened(Watches watches, int expected) {
      this.watches = watches;
      ScalaCollections.rest(watches.toMap().iterator())
          .forEach(entry -> byName.put(entry._1(), entry._2().jDMatrix()));
      if (byName.size() != expected) {
        // The stock class leaves out empty ones, and the rank would make fewer collectives than the
        // others.
        watches.delete();
        throw new RejoinException(
            RejoinException.Code.TRAINING_FAILED,
            "expected "
                + expected
                + " matrices with rows, but only these have any: "
                + byName.keySet());
      }
    }

    @Override
    public Map<String, DMatrix> byName() {
      return Collections.unmodifiableMap(byName);
    }

    @Override
    public void close() {
      watches.delete();
    }
  }
}
