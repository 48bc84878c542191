package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
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
final class TrainOperator<R, T, M> extends RankOperator<R, TrainedModel> {
  private static final long serialVersionUID = 1L;

  private final transient TrainerFunction<T, M> function;
  private final transient Intake<R, T> intake;
  private final transient TypeSerializer<T> serializer;
  private final transient SettingValues settings;
  private final transient RowBuffer<T> rows;
  private final transient DataOutputSerializer scratch = new DataOutputSerializer(256);
  private final transient CRC32C one = new CRC32C();
  private final transient CRC32 other = new CRC32();

  private transient ListState<byte[]> state;
  private transient ListState<byte[]> read;
  private transient String split;
  private transient boolean copies;

  TrainOperator(
      StreamOperatorParameters<TrainedModel> parameters,
      TrainerFunction<T, M> function,
      Intake<R, T> intake,
      TypeSerializer<T> serializer,
      SettingValues settings) {
    super(parameters);
    this.function = function;
    this.intake = intake;
    this.serializer = serializer;
    this.settings = settings;
    this.rows = new RowBuffer<>(limit(settings));
  }

  /** How many rows wait at a rank before its input does. */
  private static int limit(SettingValues settings) {
    long batches = settings.number(FlinkSettings.BUFFER_BATCHES);
    return (int) Math.min(Integer.MAX_VALUE, settings.number(FlinkSettings.BATCH_ROWS) * batches);
  }

  @Override
  public void initializeState(StateInitializationContext context) throws Exception {
    OperatorStateStore store = context.getOperatorStateStore();
    state = store.getListState(entries("rejoin"));
    try {
      for (byte[] bytes : state.get()) {
        RankState<T> restored = RankState.read(bytes, serializer, getUserCodeClassloader());
        restored.refuseOther(world(), intake.isBySplit(), getOperatorName());
        rows.restore(restored.newest(), restored.kept());
      }
      if (intake.isBySplit()) {
        // Rows may come back to another rank than they were kept at, so each gets all of these.
        read = store.getUnionListState(entries("rejoin-read"));
        for (byte[] bytes : read.get()) {
          rows.restoreRead(RankState.readPositions(bytes));
        }
      }
    } catch (RejoinException e) {
      throw Repeating.told(e);
    }
  }

  private static ListStateDescriptor<byte[]> entries(String name) {
    return new ListStateDescriptor<>(name, BytePrimitiveArraySerializer.INSTANCE);
  }

  private int world() {
    return getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
  }

  @Override
  public void open() throws Exception {
    super.open();
    Subtask<TrainOperator<R, T, M>> subtask = new Subtask<>(this);
    split = "subtask " + subtask.rank();
    copies = getExecutionConfig().isObjectReuseEnabled();
    opened(subtask);
    begin(new RankThread<>(function, rows, settings, subtask));
  }

  @Override
  public void processElement(StreamRecord<R> record) throws Exception {
    T row = intake.row(record.getValue());
    long hash = row == null ? 0 : hash(row);
    T kept = copies && row != null ? serializer.copy(row) : row;
    try {
      intake.add(rows, record.getValue(), kept, hash, split);
    } catch (RejoinException e) {
      throw Repeating.told(e);
    }
    while (rows.isFull()) {
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
    boolean bySplit = intake.isBySplit();
    state.update(List.of(RankState.of(world(), bySplit, rows).bytes(serializer)));
    if (bySplit) {
      read.update(List.of(RankState.bytes(rows.read())));
    }
  }

  /** Rows were taken: Flink's thread, which may wait for that, looks again. */
  void wake() {
    mailbox().execute(() -> {}, "a version is complete");
  }
}
