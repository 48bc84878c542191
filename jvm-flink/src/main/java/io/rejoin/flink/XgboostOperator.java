package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * Flink's side of a rank that trains with XGBoost: keeps the rows, also in Flink's checkpoints, and
 * has them trained on when the input has ended.
 */
final class XgboostOperator extends RankOperator<Row, XgboostModel> {
  private static final long serialVersionUID = 1L;

  private final transient XgboostSpec spec;
  private final transient boolean inOrder;
  private final transient SettingValues settings;

  private transient RankRows rows;
  private transient Subtask<XgboostOperator> subtask;

  XgboostOperator(
      StreamOperatorParameters<XgboostModel> parameters,
      XgboostSpec spec,
      boolean inOrder,
      SettingValues settings) {
    super(parameters);
    this.spec = spec;
    this.inOrder = inOrder;
    this.settings = settings;
  }

  @Override
  public void initializeState(StateInitializationContext context) throws Exception {
    rows =
        new RankRows(
            spec.columns,
            spec.missing,
            getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks());
    try {
      RawState.read(context, in -> rows.restore(RowBlock.read(in), getOperatorName()));
    } catch (RejoinException e) {
      throw Repeating.refused(e);
    }
  }

  @Override
  public void open() throws Exception {
    super.open();
    subtask = new Subtask<>(this);
    opened(subtask);
  }

  @Override
  public void processElement(StreamRecord<Row> record) throws Exception {
    try {
      RowNumbers.requireInsert(record.getValue());
      rows.add(record.getValue());
    } catch (RejoinException e) {
      throw Repeating.refused(e);
    }
  }

  @Override
  public void endInput() throws Exception {
    begin(new XgboostThread(spec, inOrder, rows, settings, subtask));
    awaitEnd();
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    super.snapshotState(context);
    RawState.write(context, rows.blocks(), RowBlock::write);
  }
}
