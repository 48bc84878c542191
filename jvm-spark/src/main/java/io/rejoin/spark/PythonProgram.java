package io.rejoin.spark;

import io.rejoin.GangTask;
import java.util.Collections;
import java.util.Iterator;
import java.util.function.IntFunction;

/**
 * A rank that trains in the task's Python worker: it gets what it joins with, then its rows. The
 * worker has an agent of its own, and does what {@link io.rejoin.RankLoop} does.
 */
final class PythonProgram implements GangProgram<byte[]> {
  private static final long serialVersionUID = 1L;

  @Override
  public Iterator<byte[]> run(
      GangTask gang, SparkTask task, IntFunction<RankInput<byte[]>> inputs) {
    byte[] launch = gang.launchRecord(task, task.own(gang));
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
    return "Communicator.checkpoint more often";
  }

  @Override
  public boolean besideExecutor() {
    return true;
  }
}
