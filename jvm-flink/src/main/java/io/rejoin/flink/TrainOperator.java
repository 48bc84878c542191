package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;

/**
 * Flink's side of a rank: brings rows to the trainer's thread ({@link RankThread}), its models
 * downstream, and what both have into Flink's checkpoints. Flink's thread never waits for another
 * rank but where its input waits for room ({@link Room}), and where it has ended, which lets
 * checkpoints pass.
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
  // Null where rows are trained on as they come.
  private final transient UnorderedRows<T> unordered;

  private transient Subtask<TrainOperator<R, T, M>> subtask;
  private transient Room room;
  private transient String split;
  private transient boolean copies;

  TrainOperator(
      StreamOperatorParameters<TrainedModel> parameters,
      TrainerFunction<T, M> function,
      Intake<R, T> intake,
      TypeSerializer<T> serializer,
      SettingValues settings,
      boolean isBounded,
      boolean inOrder) {
    super(parameters);
    this.isBounded = isBounded;
    this.function = function;
    this.intake = intake;
    this.serializer = serializer;
    this.settings = settings;
    // The trainer's thread looks at rows, too, and a serializer is one thread's.
    RowHash<T> hashOfThread = new RowHash<>(serializer.duplicate());
    this.rows = new RowBuffer<>(limit(settings), hashOfThread, this::look);
    long batch = settings.number(FlinkSettings.BATCH_ROWS);
    this.inbox = new Inbox<>(rows, (int) Math.min(INBOX_ROWS, batch));
    this.hash = new RowHash<>(serializer);
    this.unordered = inOrder && !intake.isByKey() ? null : new UnorderedRows<>();
  }

  /** How many rows wait at a rank before its input does. */
  private static int limit(SettingValues settings) {
    long batches = settings.number(FlinkSettings.BUFFER_BATCHES);
    return (int) Math.min(Integer.MAX_VALUE, settings.number(FlinkSettings.BATCH_ROWS) * batches);
  }

  @Override
  public void initializeState(StateInitializationContext context) throws Exception {
    try {
      RawState.read(context, this::restore);
    } catch (RejoinException e) {
      throw Repeating.refused(e);
    }
  }

  private void restore(DataInputView in) throws IOException {
    RankState<T> restored = RankState.read(in, serializer, getUserCodeClassloader());
    restored.refuseOther(world(), intake.isBySplit(), getOperatorName());
    rows.restore(restored.newest(), restored.kept());
  }

  private int world() {
    return getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
  }

  @Override
  public void open() throws Exception {
    super.open();
    subtask = new Subtask<>(this);
    room = new Room(subtask, rows, mailbox(), getProcessingTimeService());
    split = "subtask " + subtask.rank();
    if (!intake.isBySplit()) {
      // Also after a restore: splits that were given since that checkpoint go back to the source,
      // which may give them to another reader.
      rows.owns(split, !isBounded);
    }
    copies = getExecutionConfig().isObjectReuseEnabled();
    opened(subtask);
    RankThread<T, M> trainer = new RankThread<>(function, rows, settings, subtask);
    ProcessingTimeService time = getProcessingTimeService();
    long limit = settings.number(CommonSettings.MEMBERS_TIMEOUT);
    time.registerTimer(time.getCurrentProcessingTime() + limit, now -> trainer.refuseUnopened());
    begin(trainer);
  }

  @Override
  public void processElement(StreamRecord<R> record) throws Exception {
    T row = intake.row(record.getValue());
    T kept = copies && row != null ? serializer.copy(row) : row;
    long content = row == null ? 0 : hash.of(row);
    try {
      if (unordered != null) {
        unordered.add(kept, intake.key(record.getValue()), content);
        return;
      }
      intake.add(inbox, record.getValue(), kept, content, split);
    } catch (RejoinException e) {
      throw Repeating.refused(e);
    }
    awaitRoom();
  }

  /** A row was added; it has to wait for room where it was brought to the buffer. */
  private void awaitRoom() throws InterruptedException {
    if (inbox.size() == 0) {
      room.await();
    }
  }

  private void addInOrder(T row, long content) throws InterruptedException {
    try {
      inbox.add(split, Inbox.NEXT, row, content);
    } catch (RejoinException e) {
      throw Repeating.refused(e);
    }
    awaitRoom();
  }

  @Override
  public void endInput() throws Exception {
    if (unordered != null) {
      unordered.giveTo(this::addInOrder);
    }
    bring();
    if (isBounded) {
      rows.end();
    } else {
      rows.cutOff();
    }
    awaitEnd();
  }

  @Override
  public OperatorSnapshotFutures snapshotState(
      long checkpoint, long time, CheckpointOptions options, CheckpointStreamFactory storage)
      throws Exception {
    SnapshotType type = options.getCheckpointType();
    if (type.isSavepoint() && ((SavepointType) type).isSynchronous()) {
      // No row follows on this savepoint, and the ranks that wait for one have to come to it.
      subtask.ask(new Stopping(subtask.rank(), subtask.attempt()));
    }
    return super.snapshotState(checkpoint, time, options, storage);
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    super.snapshotState(context);
    bring();
    boolean bySplit = intake.isBySplit();
    List<RankState<T>> state = List.of(RankState.of(world(), bySplit, rows));
    try {
      RawState.write(context, state, (one, out) -> one.write(serializer, hash, out));
    } catch (RejoinException e) {
      // Flink might take it for the end of this checkpoint alone.
      fail(e);
      throw Repeating.refused(e);
    }
  }

  private void bring() throws Exception {
    try {
      inbox.bring();
    } catch (RejoinException e) {
      throw Repeating.refused(e);
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
