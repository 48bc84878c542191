package io.rejoin.xgboost;

import io.rejoin.CancelSignal;
import io.rejoin.RankTask;
import io.rejoin.RejoinException;
import io.rejoin.Watch;
import java.util.Optional;
import java.util.function.IntConsumer;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * Trains one rank to the end of the job: joins, trains from wherever the job is, and goes back when
 * the job does.
 *
 * <p>Everything runs on the calling thread, because XGBoost's communicator belongs to a thread: an
 * update on a thread without one would silently train a local model.
 */
public final class TrainingLoop {
  private final XgboostAgent agent;
  private final TrainingSpec spec;
  private final XgboostVersion version;
  private IntConsumer progress = rounds -> {};

  /**
   * A loop over an agent.
   *
   * @throws RejoinException INCOMPATIBLE when the XGBoost on the class path isn't supported
   */
  public TrainingLoop(XgboostAgent agent, TrainingSpec spec) {
    this.agent = agent;
    this.spec = spec;
    this.version = XgboostVersion.loaded();
    XgboostMembers.check(version);
    XgboostVersion.load();
  }

  /**
   * What is called with how far this rank is, on the thread that trains: the number of rounds that
   * are done, once when the first round is about to begin (0, or where a restarted rank goes on)
   * and then after each round, before its checkpoint is taken. It sees nothing of the model and
   * must not make collective calls; the training waits for it, and ends if it throws.
   */
  public TrainingLoop onProgress(IntConsumer listener) {
    progress = listener;
    return this;
  }

  /**
   * Trains and returns when the end is reached by all ranks.
   *
   * @param rankTask who this is
   * @param source where the matrices come from
   * @param cancel how the framework says that the task should end
   * @return rank 0's result, which the tracker has, too; empty at the other ranks, and where the
   *     job had reached its end already
   * @throws RejoinException with the reason for the task's or the job's end; if it will not repeat,
   *     a retry of the task goes on where the job is
   */
  public Optional<TrainingResult> run(
      RankTask rankTask, Matrices.Source source, CancelSignal cancel) {
    return run(rankTask, world -> source.open(), cancel);
  }

  /**
   * The same in a job whose world may change.
   *
   * @throws RejoinException as {@link #run(RankTask, Matrices.Source, CancelSignal)}; RESIZED where
   *     the world has changed: the task is another rank from then on ({@link
   *     io.rejoin.ProcessAgent#asRank})
   */
  public Optional<TrainingResult> run(
      RankTask rankTask, Matrices.SourceByWorld source, CancelSignal cancel) {
    while (true) {
      try {
        return joinAndTrain(rankTask, source, cancel);
      } catch (RejoinException e) {
        // The job went back to an older version, and this rank has to start again from there.
        if (e.code() != RejoinException.Code.ROLLED_BACK) {
          throw e;
        }
      }
      rankTask.throwIfCancelled(cancel);
    }
  }

  private Optional<TrainingResult> joinAndTrain(
      RankTask rankTask, Matrices.SourceByWorld source, CancelSignal cancel) {
    XgboostMember member =
        agent.join(
            rankTask.rank(),
            rankTask.stage(),
            rankTask.task(),
            spec.terms(version),
            rankTask.joinMillis(),
            cancel);
    Watch watch = Watch.over(why -> member.free(RejoinException.Code.CANCELLED, why), cancel);
    // Whatever is thrown, the member learns of it, so that the tracker doesn't have to wait for the
    // framework's word.
    try {
      Optional<TrainingResult> result =
          new Incarnation(member, rankTask, spec, version, progress).run(source);
      member.close();
      return result;
    } catch (Exception thrown) {
      RejoinException reason = reason(rankTask, member, thrown);
      member.close(reason.code(), reason.text());
      throw reason;
    } catch (Error error) {
      member.close(RejoinException.Code.IO, "the task ended with " + error);
      throw error;
    } finally {
      watch.close();
    }
  }

  /**
   * The member's own failure comes first: what XGBoost throws when its worker was freed is only the
   * consequence. After that a failure inside XGBoost repeats (bad parameters, bad labels), and one
   * of the user's code may not.
   */
  private static RejoinException reason(RankTask rankTask, XgboostMember member, Exception thrown) {
    RejoinException failure = member.failure().orElse(null);
    if (failure != null) {
      failure.addSuppressed(thrown);
      return failure;
    }
    if (thrown instanceof RejoinException) {
      return (RejoinException) thrown;
    }
    if (thrown instanceof XGBoostError) {
      return new RejoinException(
          RejoinException.Code.TRAINING_FAILED,
          "XGBoost failed at " + rankTask + ": " + withoutTrace(thrown),
          thrown);
    }
    return rankTask.ownCodeThrew(thrown);
  }

  /**
   * XGBoost appends addresses of its own stack, which say nothing to a user; they stay in the
   * cause.
   */
  private static String withoutTrace(Exception thrown) {
    String text = String.valueOf(thrown.getMessage());
    int trace = text.indexOf("\nStack trace:");
    return (trace < 0 ? text : text.substring(0, trace)).trim();
  }
}
