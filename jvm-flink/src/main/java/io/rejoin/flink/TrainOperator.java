package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailbox;
import org.apache.flink.util.ExceptionUtils;

/**
 * Flink's side of a rank: brings rows to the trainer's thread ({@link RankThread}), its models
 * downstream, and what both have into Flink's checkpoints. Flink's thread never waits for another
 * rank but where its input waits, and a checkpoint passes there.
 */
final class TrainOperator<T, M> extends AbstractStreamOperator<TrainedModel>
    implements OneInputStreamOperator<T, TrainedModel>, BoundedOneInput {
  private static final long serialVersionUID = 1L;

  private final transient TrainerFunction<T, M> function;
  private final transient TypeSerializer<T> serializer;
  private final transient SettingValues settings;
  private final transient MailboxExecutor mailbox;
  private final transient RowBuffer<T> rows = new RowBuffer<>();
  private final transient DataOutputSerializer scratch = new DataOutputSerializer(256);
  private final transient CRC32C one = new CRC32C();
  private final transient CRC32 other = new CRC32();

  private transient ListState<byte[]> state;
  private transient String split;
  private transient int limit;
  private transient RankThread<T, M> rank;
  private transient boolean copies;
  // Set by a mail, so that all models before it have gone downstream.
  private transient boolean over;

  TrainOperator(
      StreamOperatorParameters<TrainedModel> parameters,
      TrainerFunction<T, M> function,
      TypeSerializer<T> serializer,
      SettingValues settings) {
    // One class file for Flink 1.20 and 2.x: only 2.x has a constructor with parameters.
    setup(parameters.getContainingTask(), parameters.getStreamConfig(), parameters.getOutput());
    this.function = function;
    this.serializer = serializer;
    this.settings = settings;
    this.mailbox =
        getContainingTask().getMailboxExecutorFactory().createExecutor(config.getChainIndex());
  }

  @Override
  public void initializeState(StateInitializationContext context) throws Exception {
    state =
        context
            .getOperatorStateStore()
            .getListState(
                new ListStateDescriptor<>("rejoin", BytePrimitiveArraySerializer.INSTANCE));
    int world = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
    for (byte[] bytes : state.get()) {
      RankState<T> restored = RankState.read(bytes, serializer, getUserCodeClassloader());
      try {
        restored.refuseOtherWorld(world, getOperatorName());
      } catch (RejoinException e) {
        throw Repeating.told(e);
      }
      rows.restore(restored.newest(), restored.kept());
    }
  }

  @Override
  public void open() throws Exception {
    super.open();
    Subtask subtask = new Subtask(this, settings);
    split = "subtask " + subtask.rank();
    copies = getExecutionConfig().isObjectReuseEnabled();
    int batch = (int) settings.number(FlinkSettings.BATCH_ROWS);
    limit =
        (int) Math.min(Integer.MAX_VALUE, batch * settings.number(FlinkSettings.BUFFER_BATCHES));
    rank = new RankThread<>(function, rows, settings, subtask);
    getContainingTask().getCancelables().registerCloseable(rank::cancel);
    rank.start();
  }

  @Override
  public void processElement(StreamRecord<T> record) throws Exception {
    T row = record.getValue();
    try {
      rows.add(split, copies ? serializer.copy(row) : row, hash(row));
    } catch (RejoinException e) {
      throw Repeating.told(e);
    }
    while (rows.waiting() >= limit) {
      mailbox.yield();
    }
  }

  private long hash(T row) throws Exception {
    scratch.clear();
    serializer.serialize(row, scratch);
    one.reset();
    one.update(scratch.getSharedBuffer(), 0, scratch.length());
    other.reset();
    other.update(scratch.getSharedBuffer(), 0, scratch.length());
    return one.getValue() << 32 | other.getValue();
  }

  /**
   * No row is under way here, so barriers may pass while this rank waits for the end: they are
   * mails of the lowest priority at the source of a chain, which an operator's own executor leaves.
   */
  @Override
  public void endInput() throws Exception {
    rows.end();
    MailboxExecutor all =
        getContainingTask().getMailboxExecutorFactory().createExecutor(TaskMailbox.MIN_PRIORITY);
    while (!over) {
      all.yield();
    }
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    state.clear();
    int world = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
    state.add(RankState.of(world, rows).bytes(serializer));
  }

  /** A model goes downstream; called by the trainer's thread. */
  void emit(TrainedModel model) {
    mailbox.execute(() -> output.collect(new StreamRecord<>(model)), "a model goes downstream");
  }

  /** Training is over, well if there is no failure; called by the trainer's thread. */
  void end(Throwable failure) {
    mailbox.execute(
        () -> {
          over = true;
          if (failure != null) {
            ExceptionUtils.rethrowException(failure);
          }
        },
        "training is over");
  }

  /** Rows were taken: Flink's thread, which may wait for that, looks again. */
  void wake() {
    mailbox.execute(() -> {}, "a version is complete");
  }

  @Override
  public void close() throws Exception {
    if (rank != null) {
      boolean ends = over || getContainingTask().isCanceled() || getContainingTask().isFailing();
      try {
        if (!ends) {
          rank.stopped();
        }
      } finally {
        rank.close();
      }
    }
    super.close();
  }
}
