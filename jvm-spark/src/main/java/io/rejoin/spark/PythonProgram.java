package io.rejoin.spark;

import io.rejoin.GangTask;
import io.rejoin.xgboost.XgboostSettings;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.function.IntFunction;

/**
 * A rank that trains in the task's Python worker: it gets what it joins with (the launch record,
 * with the settings of XGBoost, which not all programs need), then its rows. The worker has an
 * agent of its own, and does what {@link io.rejoin.RankLoop} does.
 */
final class PythonProgram implements GangProgram<byte[]> {
  private static final long serialVersionUID = 1L;

  private final String checkpointAdvice;

  PythonProgram(String checkpointAdvice) {
    this.checkpointAdvice = checkpointAdvice;
  }

  @Override
  public Iterator<byte[]> run(
      GangTask gang, SparkTask task, IntFunction<RankInput<byte[]>> inputs) {
    Map<String, String> xgboost =
        Map.of(
            "hook", gang.settings().text(SparkSettings.HOOK),
            "checkpoint.rounds",
                String.valueOf(gang.settings().number(XgboostSettings.CHECKPOINT_ROUNDS)));
    byte[] launch = gang.launchRecord(task, task.own(gang), xgboost);
    Iterator<byte[]> rows = inputs.apply(task.own(gang).rank()).iterator();
    Iterator<byte[]> first = Collections.singletonList(launch).iterator();
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return first.hasNext() || rows.hasNext();
      }

      @Override
      public byte[] next() {
        return first.hasNext() ? first.next() : rows.next();
      }
    };
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
