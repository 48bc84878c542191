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
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** As a user would: {@link Rejoin#train} with {@link OnlineLogisticRegression}. */
final class OurTraining implements Training {
  /** What is trained on both sides. */
  static final OnlineLogisticRegression TRAINER =
      new OnlineLogisticRegression(FEATURES, new Sgd().learningRate(0.05));

  @Override
  public void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock) {
    train(source(environment, rows), new Timed(clock, ""));
  }

  /** The same operator for each rank alone: a world of one, whose collectives have no peer. */
  static Training alone() {
    return (environment, rows, clock) -> {
      for (int rank = 0; rank < environment.getParallelism(); rank++) {
        // Groups of their own, so that each rank has a TaskManager of its own, as ours have.
        String name = "alone-" + rank + "-";
        SingleOutputStreamOperator<LabeledRow> one =
            source(environment, rows.forOne()).setParallelism(1).slotSharingGroup(name);
        train(one, new Timed(clock, name));
      }
    };
  }

  private static SingleOutputStreamOperator<LabeledRow> source(
      StreamExecutionEnvironment environment, PoolSource rows) {
    TypeInformation<LabeledRow> type = TypeInformation.of(LabeledRow.class);
    return environment.fromSource(rows, WatermarkStrategy.noWatermarks(), "rows", type);
  }

  private static void train(SingleOutputStreamOperator<LabeledRow> rows, Timed trainer) {
    Rejoin.train(rows, trainer)
        .sinkTo(new DiscardingSink<>())
        .setParallelism(rows.getParallelism());
  }

  /** The trainer with a clock. */
  private static final class Timed implements TrainerFunction<LabeledRow, LogisticRegressionModel> {
    private static final long serialVersionUID = 1L;

    private final StepClock clock;
    private final String name;

    Timed(StepClock clock, String name) {
      this.clock = clock;
      this.name = name;
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
      clock.step(name + "rank-" + ranks.rank());
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
