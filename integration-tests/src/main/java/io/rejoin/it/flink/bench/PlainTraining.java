package io.rejoin.it.flink.bench;

import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.flink.trainers.LogisticRegressionModel;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Each rank trains a model of its own, with the same trainer in a plain function: no other rank is
 * waited for, no row is kept or compared. It is wrong as a training, and as fast as one can be.
 */
final class PlainTraining implements Training {
  @Override
  public void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock) {
    environment
        .fromSource(
            rows, WatermarkStrategy.noWatermarks(), "rows", TypeInformation.of(LabeledRow.class))
        .process(new Plain(clock))
        .returns(Types.INT)
        .sinkTo(new DiscardingSink<>());
  }

  private static final class Plain extends ProcessFunction<LabeledRow, Integer> {
    private static final long serialVersionUID = 1L;

    private final StepClock clock;
    private transient OneRank rank;
    private transient LogisticRegressionModel model;
    private transient List<LabeledRow> batch;

    Plain(StepClock clock) {
      this.clock = clock;
    }

    @Override
    public void open(OpenContext context) {
      rank = OneRank.open();
      model = OurTraining.TRAINER.open(null);
      batch = new ArrayList<>(BATCH);
    }

    @Override
    public void processElement(LabeledRow row, Context context, Collector<Integer> out)
        throws Exception {
      batch.add(row);
      if (batch.size() == BATCH) {
        model = OurTraining.TRAINER.onBatch(batch, rank.communicator(), model);
        batch = new ArrayList<>(BATCH);
        clock.step("rank-" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
      }
    }

    @Override
    public void close() {
      if (rank != null) {
        rank.close();
      }
    }
  }
}
