package example;

import io.rejoin.flink.Rejoin;
import io.rejoin.flink.RejoinOptions;
import io.rejoin.flink.TrainedModel;
import io.rejoin.flink.trainers.Ftrl;
import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.flink.trainers.LogisticRegressionModel;
import io.rejoin.flink.trainers.OnlineLogisticRegression;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.CoProcessFunction;
import org.apache.flink.util.Collector;

/** Trains, and predicts by the newest model in the same job. */
public class TrainAndPredict {
  /** With the folder of the lines, and that of the predictions. */
  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
    environment.enableCheckpointing(10_000);
    OnlineLogisticRegression trainer =
        new OnlineLogisticRegression(Line.FEATURES, new Ftrl().l1(0.01));
    FileSource<String> lines =
        FileSource.forRecordStreamFormat(new TextLineInputFormat(), new Path(arguments[0])).build();
    // The broadcast below connects all subtasks: one death restarts them all.
    Configuration settings = new Configuration();
    settings.set(RejoinOptions.ALLOW_REGION_RESTART, true);
    DataStream<TrainedModel> models =
        Rejoin.train(
                Rejoin.source(environment, lines, WatermarkStrategy.noWatermarks(), "lines")
                    .map(new Line()),
                trainer,
                settings)
            .uid("train");
    environment
        .fromSource(lines, WatermarkStrategy.noWatermarks(), "lines to predict")
        .map(new Line())
        .connect(models.broadcast())
        .process(new Prediction(trainer))
        .sinkTo(
            FileSink.forRowFormat(new Path(arguments[1]), new SimpleStringEncoder<String>())
                .build());
    environment.execute("train and predict");
  }

  /** Predicts by the newest model that has come; 0.5 before there is one. */
  static class Prediction extends CoProcessFunction<LabeledRow, TrainedModel, String> {
    private static final long serialVersionUID = 1L;

    private final OnlineLogisticRegression trainer;
    private transient LogisticRegressionModel model;
    private transient int version;

    Prediction(OnlineLogisticRegression trainer) {
      this.trainer = trainer;
    }

    @Override
    public void processElement1(LabeledRow row, Context context, Collector<String> out) {
      double probability = model == null ? 0.5 : model.predictProbability(row.features);
      out.collect(version + " " + row.label + " " + probability);
    }

    @Override
    public void processElement2(TrainedModel trained, Context context, Collector<String> out)
        throws Exception {
      // After a recovery a version may come again.
      if (model == null || trained.getVersion() > version) {
        version = trained.getVersion();
        model = trained.read(trainer);
      }
    }
  }
}
