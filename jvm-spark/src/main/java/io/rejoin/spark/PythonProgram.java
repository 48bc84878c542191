package io.rejoin.spark;

import io.rejoin.GangTask;
import io.rejoin.RankTask;
import io.rejoin.xgboost.CheckpointRhythm;
import io.rejoin.xgboost.XgboostSettings;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.SparkEnv;

/**
 * A rank that trains in the task's Python worker: it gets what it joins with (the launch record,
 * with the settings of XGBoost, which not all programs need), then its rows, then an empty record.
 * The worker has an agent of its own, and does what {@link io.rejoin.RankLoop} does.
 *
 * <p>In a gang with spares the task asks for a rank here, because the rank's rows have to be read
 * here; its worker starts when it has one, asks again by the same number, and has the rank from
 * then on.
 */
final class PythonProgram implements GangProgram<byte[]> {
  private static final long serialVersionUID = 1L;

  private final String checkpointAdvice;
  private final int rounds;
  private final long bytesPerRound;

  /**
   * A program.
   *
   * @param rounds as {@link GangProgram#rounds()}
   * @param inputBytesPerRank of the largest input of a rank
   */
  PythonProgram(String checkpointAdvice, int rounds, long inputBytesPerRank) {
    this.checkpointAdvice = checkpointAdvice;
    this.rounds = rounds;
    this.bytesPerRound = CheckpointRhythm.bytesPerRound(inputBytesPerRank);
  }

  @Override
  public Iterator<byte[]> run(GangTask gang, SparkTask task, RankInputs<byte[]> inputs) {
    Optional<RankTask> given = task.givenRank(gang);
    if (given.isEmpty()) {
      return Collections.emptyIterator(); // the job is over, and its worker has nothing to do
    }
    int rank = given.get().rank();
    Map<String, String> more =
        Map.of(
            "given", gang.settings().number(SparkSettings.SPARES) == 0 ? "" : String.valueOf(rank),
            "hook", gang.settings().text(SparkSettings.HOOK),
            // What Spark writes is encrypted then, and nothing of the rows may be there otherwise.
            "files.encrypted",
                String.valueOf(
                    SparkEnv.get().conf().getBoolean("spark.io.encryption.enabled", false)),
            "checkpoint.rounds",
                String.valueOf(gang.settings().number(XgboostSettings.CHECKPOINT_ROUNDS)),
            "checkpoint.bytes.per.round", String.valueOf(bytesPerRound));
    byte[] launch = gang.launchRecord(task, task.own(gang), more);
    Iterator<byte[]> rows = inputs.of(rank).iterator();
    Iterator<byte[]> first = Collections.singletonList(launch).iterator();
    // To the worker rows that can't be read look like the end of all rows, which is marked
    // therefore.
    Iterator<byte[]> last = Collections.singletonList(new byte[0]).iterator();
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return first.hasNext() || rows.hasNext() || last.hasNext();
      }

      @Override
      public byte[] next() {
        return first.hasNext() ? first.next() : rows.hasNext() ? rows.next() : last.next();
      }
    };
  }

  @Override
  public int rounds() {
    return rounds;
  }

  @Override
  public String checkpointAdvice() {
    return checkpointAdvice;
  }

  @Override
  public boolean besideExecutor() {
    return true;
  }
}
