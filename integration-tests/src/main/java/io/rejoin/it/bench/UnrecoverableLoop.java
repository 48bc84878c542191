package io.rejoin.it.bench;

import io.rejoin.RejoinException;
import io.rejoin.xgboost.XgboostAgent;
import io.rejoin.xgboost.XgboostMember;
import io.rejoin.xgboost.XgboostVersion;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import ml.dmlc.xgboost4j.java.Communicator;

/**
 * One rank of a training whose recovery is as good as off: every few rounds it takes a checkpoint
 * of one byte, so that no model is ever serialised or kept, and the logs of two such intervals fit
 * into their memory. What recovery costs a training is measured against it.
 */
final class UnrecoverableLoop {
  private static final byte[] NOTHING = {0};

  /**
   * Most rounds between two checkpoints: each is told to the tracker, which costs something, too.
   */
  private static final int MOST_ROUNDS = 8;

  private UnrecoverableLoop() {}

  /** Trains a rank to the end; rank 0's model is the job's result, without metrics. */
  static RoundClock train(XgboostAgent agent, Shape shape, int rank, long patienceMillis)
      throws Exception {
    XgboostVersion version = XgboostVersion.loaded();
    // The library is looked at before a rank joins.
    Class.forName("ml.dmlc.xgboost4j.java.XGBoostJNI");
    String terms = "unrecoverable, " + shape;
    long fits = Shape.LOG_BYTES / 2 / shape.mostHistogramBytes();
    int every = (int) Math.max(1, Math.min(MOST_ROUNDS, fits));
    try (XgboostMember member = agent.join(rank, 0, 0, terms, patienceMillis, Optional::empty)) {
      Map<String, Object> arguments = new HashMap<>();
      member
          .communicator(version.wire())
          .forEach((key, text) -> arguments.put(key, typed(key, text)));
      Communicator.init(arguments);
      try {
        BareRounds.Trained trained =
            BareRounds.train(
                shape,
                done -> {
                  if (done % every == 0 || done == shape.rounds()) {
                    int next = (done + every - 1) / every;
                    boolean complete = done == shape.rounds();
                    member.enter(next, done, done == 0 ? null : NOTHING, null, complete);
                  }
                });
        byte[] model = trained.model();
        member.finish(shape.rounds(), model, rank == 0 ? model : null, patienceMillis);
        return trained.clock();
      } finally {
        Communicator.shutdown();
      }
    } catch (RejoinException failed) {
      throw new IllegalStateException("rank " + rank + " of " + shape + " failed", failed);
    }
  }

  /** XGBoost wants numbers where numbers are meant. */
  private static Object typed(String key, String text) {
    boolean number = key.endsWith("_port") || key.endsWith("_timeout") || key.endsWith("_retry");
    return number ? (Object) Integer.valueOf(text) : text;
  }
}
