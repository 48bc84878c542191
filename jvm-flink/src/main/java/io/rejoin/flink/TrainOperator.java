package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
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
  // So many that what the threads do to meet costs a row next to nothing.
  private static final int INBOX_ROWS = 128;

  private final transient TrainerFunction<T, M> function;
  private final transient Intake<R, T> intake;
  private final transient TypeSerializer<T> serializer;
  private final transient SettingValues settings;
  private final transient boolean isBounded;
  private final transient RowBuffer<T> rows;
  private final transient Inbox<T> inbox;
  private final transient RowHash<T> hash;

  private transient ListState<byte[]> state;
  private transient ListState<byte[]> read;
  private transient String split;
  private transient boolean copies;
  private transient boolean isRestored;

  TrainOperator(
      StreamOperatorParameters<TrainedModel> parameters,
      TrainerFunction<T, M> function,
      Intake<R, T> intake,
      TypeSerializer<T> serializer,
      SettingValues settings,
      boolean isBounded) {
    super(parameters);
    this.isBounded = isBounded;
    this.function = function;
    this.intake = intake;
    this.serializer = serializer;
    this.settings = settings;
    this.rows = new RowBuffer<>(limit(settings), this::look);
    long batch = settings.number(FlinkSettings.BATCH_ROWS);
    this.inbox = new Inbox<>(rows, (int) Math.min(INBOX_ROWS, batch));
    this.hash = new RowHash<>(serializer);
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
    isRestored = context.isRestored();
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
    if (!intake.isBySplit()) {
      // From Flink's first checkpoint on a source gives splits back to their readers.
      rows.owns(split, !isBounded && !isRestored);
    }
    copies = getExecutionConfig().isObjectReuseEnabled();
    opened(subtask);
    begin(new RankThread<>(function, rows, settings, subtask));
  }

  @Override
  public void processElement(StreamRecord<R> record) throws Exception {
    T row = intake.row(record.getValue());
    T kept = copies && row != null ? serializer.copy(row) : row;
    long content = row == null ? 0 : hash.of(row);
    try {
      intake.add(inbox, record.getValue(), kept, content, split);
    } catch (RejoinException e) {
      throw Repeating.told(e);
    }
    while (inbox.size() == 0 && rows.isFull()) {
      mailbox().yield();
    }
  }

  @Override
  public void endInput() throws Exception {
    bring();
    rows.end();
    awaitEnd();
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    bring();
    boolean bySplit = intake.isBySplit();
    state.update(List.of(RankState.of(world(), bySplit, rows).bytes(serializer)));
    if (bySplit) {
      read.update(List.of(RankState.bytes(rows.read())));
    }
  }

  private void bring() throws Exception {
    try {
      inbox.bring();
    } catch (RejoinException e) {
      throw Repeating.told(e);
    }
  }

  /** Flink's thread, which may wait for room, brings the rows that it has, and looks again. */
  private void look() {
    try {
      mailbox().execute(this::bring, "the trainer waits for rows, or has taken some");
    } catch (RejectedExecutionException e) {
      // The task has ended, and no row follows.
      LOG.debug("{} has ended", getOperatorName());
    }
  }
}
