package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Flink's side of a rank: brings rows to the trainer's thread ({@link RankThread}), its models
 * downstream, and what both have into Flink's checkpoints. Flink's thread never waits for another
 * rank but where its input waits, and a checkpoint passes there.
 */
final class TrainOperator<T, M> extends RankOperator<T, TrainedModel> {
  private static final long serialVersionUID = 1L;

  private final transient TrainerFunction<T, M> function;
  private final transient TypeSerializer<T> serializer;
  private final transient SettingValues settings;
  private final transient RowBuffer<T> rows = new RowBuffer<>();
  private final transient DataOutputSerializer scratch = new DataOutputSerializer(256);
  private final transient CRC32C one = new CRC32C();
  private final transient CRC32 other = new CRC32();

  private transient ListState<byte[]> state;
  private transient String split;
  private transient int limit;
  private transient boolean copies;

  TrainOperator(
      StreamOperatorParameters<TrainedModel> parameters,
      TrainerFunction<T, M> function,
      TypeSerializer<T> serializer,
      SettingValues settings) {
    super(parameters);
    this.function = function;
    this.serializer = serializer;
    this.settings = settings;
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
    Subtask<TrainOperator<T, M>> subtask = new Subtask<>(this);
    split = "subtask " + subtask.rank();
    copies = getExecutionConfig().isObjectReuseEnabled();
    int batch = (int) settings.number(FlinkSettings.BATCH_ROWS);
    limit =
        (int) Math.min(Integer.MAX_VALUE, batch * settings.number(FlinkSettings.BUFFER_BATCHES));
    opened(subtask);
    begin(new RankThread<>(function, rows, settings, subtask));
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
      mailbox().yield();
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

  @Override
  public void endInput() throws Exception {
    rows.end();
    awaitEnd();
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    state.clear();
    int world = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
    state.add(RankState.of(world, rows).bytes(serializer));
  }

  /** Rows were taken: Flink's thread, which may wait for that, looks again. */
  void wake() {
    mailbox().execute(() -> {}, "a version is complete");
  }
}
