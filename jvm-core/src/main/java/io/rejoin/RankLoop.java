package io.rejoin;

import java.util.Optional;

/**
 * Runs a program as one rank to the end of the job: joins, runs it from wherever the job is, and
 * goes back when the job does. For tasks of any framework; everything runs on the calling thread.
 */
public final class RankLoop {
  private final Agent agent;
  private final RankTask rankTask;
  private final String terms;
  private final long callMillis;
  private final CancelSignal cancel;

  /**
   * A loop over this process's agent.
   *
   * @param terms what the program assumes; equal at all ranks
   * @param callMillis how long a collective waits for the other ranks, restarts of theirs included
   * @param cancel how the framework says that the task should end: what is waited for ends then
   */
  public RankLoop(
      Agent agent, RankTask rankTask, String terms, long callMillis, CancelSignal cancel) {
    this.agent = agent;
    this.rankTask = rankTask;
    this.terms = terms;
    this.callMillis = callMillis;
    this.cancel = cancel;
  }

  /**
   * Returns when the end is reached by all ranks, or was reached before.
   *
   * @throws RejoinException with the reason for the task's or the job's end; if it will not repeat,
   *     a retry of the task goes on where the job is. RESIZED where the world has changed: the task
   *     is another rank from then on ({@link ProcessAgent#asRank}). What the program throws itself
   *     is {@code IO} with the cause
   */
  public void run(RankProgram program) {
    Communicator.Limits limits =
        new Communicator.Limits(rankTask.joinMillis(), callMillis, rankTask.finishMillis());
    Optional<Communicator> joined =
        agent.join(rankTask.rank(), rankTask.stage(), rankTask.task(), terms, limits, cancel);
    while (joined.isPresent()) {
      Communicator ranks = joined.get();
      if (runOnce(ranks, program)) {
        return;
      }
      // Asks the signal itself; a task that has to end leaves no communicator open behind it.
      joined = ranks.joinAgain(cancel);
    }
  }

  /** Whether the end was reached; otherwise all ranks go back to an older version. */
  private boolean runOnce(Communicator ranks, RankProgram program) {
    Watch watch =
        Watch.over(reason -> ranks.abandon(RejoinException.Code.CANCELLED, reason), cancel);
    try {
      ranks.finish(program.run(ranks));
      ranks.close();
      return true;
    } catch (Exception thrown) {
      RejoinException failure =
          thrown instanceof RejoinException
              ? (RejoinException) thrown
              : rankTask.ownCodeThrew(thrown);
      if (failure.code() == RejoinException.Code.ROLLED_BACK) {
        return false;
      }
      ranks.abandon(failure.code(), failure.text());
      throw failure;
    } catch (Error error) {
      ranks.abandon(RejoinException.Code.IO, "the task ended with " + error);
      throw error;
    } finally {
      watch.close();
    }
  }
}
