package io.rejoin.elastic;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import java.util.Optional;

/** Trains as a rank of {@code rejoin run}, in whatever world there is. */
public final class Elastic {
  private Elastic() {}

  /** What a rank does in one world, from the newest commit on. */
  @FunctionalInterface
  public interface Program<T> {
    /**
     * From where the state stands to the end of the training; called again, with another
     * communicator, when the world changes or all go back. The call in which it is then throws
     * {@link RejoinException} (RESIZED, ROLLED_BACK): let it through.
     *
     * <p>A rank that dies and is started again begins from the newest commit alone, and the others
     * go on. So from each commit on it has to make the same calls as a rank that goes past it: what
     * is done stands in the state.
     */
    T run(Communicator ranks) throws Exception;
  }

  /**
   * Joins as the rank that {@code rejoin run} has started this process as, restores the newest
   * commit (where there is none, all ranks take rank 0's values, as by {@link State#sync}), calls
   * the program, and ends the job with the state that the program has left, which has to be equal
   * at all ranks. Without {@code --min} it is as good: a rank that dies alone begins from the
   * newest commit.
   *
   * @param terms what the program assumes (its name and version, its parameters); equal at all
   *     ranks
   * @param state what the program goes on from; it keeps no more values from now on
   * @return what the program returns; empty for {@code null}, and in a process that came when the
   *     job was over
   * @throws RejoinException as {@link Communicator#launched(String)} and the calls of a
   *     communicator; INCOMPATIBLE when the job's state has other values
   * @throws Exception what the program throws itself; the rank may be started again then
   */
  public static <T> Optional<T> run(String terms, State state, Program<T> program)
      throws Exception {
    Optional<Communicator> joined = Communicator.launched(terms);
    return joined.isPresent() ? state.train(joined.get(), program) : Optional.empty();
  }
}
