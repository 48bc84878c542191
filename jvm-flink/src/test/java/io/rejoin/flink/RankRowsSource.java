package io.rejoin.flink;

import java.io.Serializable;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * The rows that a test wants a subtask to have, whenever it is started. (Flink's own sources give
 * splits to whoever asks first.)
 */
final class RankRowsSource<T> extends AbstractStreamOperator<T>
    implements OneInputStreamOperator<Long, T>, BoundedOneInput {
  private static final long serialVersionUID = 1L;

  private final Rows<T> rows;

  private RankRowsSource(Rows<T> rows) {
    this.rows = rows;
  }

  /** Makes the rows of a rank. */
  interface Rows<T> extends Serializable {
    /** Those of this attempt, from 0, of its task. */
    List<T> of(int rank, int attempt);
  }

  /** A stream of such rows, as wide as the environment. */
  static <T> DataStream<T> stream(
      StreamExecutionEnvironment environment, TypeInformation<T> type, Rows<T> rows) {
    return environment
        .fromSource(
            new NumberSequenceSource(1, environment.getParallelism()),
            WatermarkStrategy.noWatermarks(),
            "numbers",
            Types.LONG)
        .transform("rows", type, new RankRowsSource<>(rows));
  }

  @Override
  public void processElement(StreamRecord<Long> record) {
    // Only its end counts.
  }

  @Override
  public void endInput() {
    int rank = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
    int attempt = getRuntimeContext().getTaskInfo().getAttemptNumber();
    rows.of(rank, attempt).forEach(row -> output.collect(new StreamRecord<>(row)));
  }
}
