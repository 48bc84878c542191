package io.rejoin.it.flink;

import io.rejoin.flink.TrainedModel;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;

/** Behind a trainer: its first snapshot after the last model fails, as that of a sink may. */
final class FailingSnapshot<M> implements MapFunction<M, M>, CheckpointedFunction {
  private static final long serialVersionUID = 1L;

  private final String mark;
  private transient boolean hasLast;

  /** It has failed once this file is there, and never does again. */
  FailingSnapshot(Path mark) {
    this.mark = mark.toString();
  }

  @Override
  public M map(M model) {
    hasLast |= !(model instanceof TrainedModel) || ((TrainedModel) model).isLast();
    return model;
  }

  @Override
  public void snapshotState(FunctionSnapshotContext context) throws Exception {
    if (hasLast && !Files.exists(Path.of(mark))) {
      Files.createFile(Path.of(mark));
      throw new IllegalStateException("a test lets the snapshot fail");
    }
  }

  @Override
  public void initializeState(FunctionInitializationContext context) {
    // It has nothing to restore.
  }
}
