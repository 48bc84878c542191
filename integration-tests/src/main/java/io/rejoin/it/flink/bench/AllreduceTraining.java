package io.rejoin.it.flink.bench;

import io.rejoin.Communicator;
import io.rejoin.flink.Rejoin;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import io.rejoin.flink.trainers.LabeledRow;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A trainer that makes the call of {@link AllreduceBench} and nothing else, on small batches. */
final class AllreduceTraining implements Training {
  static final int BATCH = 10;

  @Override
  public void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock) {
    Rejoin.train(
            environment.fromSource(
                rows,
                WatermarkStrategy.noWatermarks(),
                "rows",
                TypeInformation.of(LabeledRow.class)),
            new Caller(clock))
        .sinkTo(new DiscardingSink<>());
  }

  private static final class Caller implements TrainerFunction<LabeledRow, float[]> {
    private static final long serialVersionUID = 1L;

    private final StepClock clock;

    Caller(StepClock clock) {
      this.clock = clock;
    }

    @Override
    public float[] open(TrainerContext context) {
      return AllreduceBench.numbers();
    }

    @Override
    public float[] onBatch(List<LabeledRow> batch, Communicator ranks, float[] numbers)
        throws Exception {
      AllreduceBench.allreduce(ranks, numbers);
      clock.step("rank-" + ranks.rank());
      return numbers;
    }

    @Override
    public byte[] write(float[] numbers) {
      return new byte[Integer.BYTES];
    }

    @Override
    public float[] read(byte[] bytes) {
      return AllreduceBench.numbers();
    }
  }
}
