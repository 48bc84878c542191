package io.rejoin.it.flink.bench;

import io.rejoin.flink.trainers.LabeledRow;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.IterativeStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The same training as one would write it by hand for Flink 1: workers make the gradients of their
 * batches, an updater of parallelism 1 adds them up and makes a step, and the model goes back to
 * all workers. Models and gradients are sent at once, rows in full buffers. A death restarts all of
 * it, and two runs of it aren't equal.
 */
public final class IterateTraining implements Training {
  private static final long ROWS_BUFFER_MILLIS = 100;

  @Override
  public boolean iterates() {
    return true;
  }

  @Override
  @SuppressWarnings(
      "deprecation") // Flink 2 has removed iterations; that they were is why we are here
  public void build(StreamExecutionEnvironment environment, PoolSource rows, StepClock clock) {
    TypeInformation<double[]> numbers = PrimitiveArrayTypeInfo.DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO;
    int world = environment.getParallelism();
    environment.setBufferTimeout(0);
    IterativeStream.ConnectedIterativeStreams<LabeledRow, double[]> loop =
        environment
            .fromSource(
                rows,
                WatermarkStrategy.noWatermarks(),
                "rows",
                TypeInformation.of(LabeledRow.class))
            .setBufferTimeout(ROWS_BUFFER_MILLIS)
            .iterate()
            .withFeedbackType(numbers);
    SingleOutputStreamOperator<double[]> models =
        loop.transform("workers", numbers, new GradientOperator(clock))
            .process(new Updater(world))
            .returns(numbers)
            .setParallelism(1);
    // What goes back has to have the parallelism of what it goes back to.
    loop.closeWith(models.broadcast().map(model -> model, numbers));
    models.sinkTo(new DiscardingSink<>()).setParallelism(1);
  }

  /** Adds up the gradients of all ranks. */
  private static final class Updater extends ProcessFunction<double[], double[]> {
    private static final long serialVersionUID = 1L;
    private static final double LEARNING_RATE = 0.05;

    private final int world;
    private transient double[] model;
    private transient double[] sums;
    private transient int gradients;

    Updater(int world) {
      this.world = world;
    }

    @Override
    public void processElement(double[] gradient, Context context, Collector<double[]> out)
        throws Exception {
      if (model == null) {
        // The last of the sums is the weight of all rows.
        model = new double[gradient.length - 1];
        sums = new double[gradient.length];
      }
      for (int i = 0; i < sums.length; i++) {
        sums[i] += gradient[i];
      }
      if (++gradients < world) {
        return;
      }
      for (int i = 0; i < model.length; i++) {
        model[i] -= LEARNING_RATE * sums[i] / sums[model.length];
      }
      gradients = 0;
      sums = new double[sums.length];
      out.collect(model.clone());
    }
  }
}
