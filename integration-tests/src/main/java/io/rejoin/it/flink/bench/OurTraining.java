package io.rejoin.it.flink.bench;

import io.rejoin.Communicator;
import io.rejoin.flink.Rejoin;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.flink.trainers.LogisticRegressionModel;
import io.rejoin.flink.trainers.OnlineLogisticRegression;
import io.rejoin.flink.trainers.Sgd;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** As a user would: {@link Rejoin#train} with {@link OnlineLogisticRegression}. */
final class OurTraining implements Training {
  /** What is trained on both sides. */
  static final OnlineLogisticRegression TRAINER =
      new OnlineLogisticRegression(FEATURES, new Sgd().learningRate(0.05));

  @Override
  public void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock) {
    Rejoin.train(
            environment.fromSource(
                rows,
                WatermarkStrategy.noWatermarks(),
                "rows",
                TypeInformation.of(LabeledRow.class)),
            new Timed(clock))
        .sinkTo(new DiscardingSink<>());
  }

  /** The trainer with a clock. */
  private static final class Timed implements TrainerFunction<LabeledRow, LogisticRegressionModel> {
    private static final long serialVersionUID = 1L;

    private final StepClock clock;

    Timed(StepClock clock) {
      this.clock = clock;
    }

    @Override
    public LogisticRegressionModel open(TrainerContext context) {
      return TRAINER.open(context);
    }

    @Override
    public LogisticRegressionModel onBatch(
        List<LabeledRow> batch, Communicator ranks, LogisticRegressionModel model)
        throws Exception {
      LogisticRegressionModel next = TRAINER.onBatch(batch, ranks, model);
      clock.step("rank-" + ranks.rank());
      return next;
    }

    @Override
    public byte[] write(LogisticRegressionModel model) {
      return TRAINER.write(model);
    }

    @Override
    public LogisticRegressionModel read(byte[] bytes) {
      return TRAINER.read(bytes);
    }
  }
}
