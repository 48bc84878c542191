package example;

import io.rejoin.flink.Rejoin;
import io.rejoin.flink.TrainedModel;
import io.rejoin.flink.trainers.Ftrl;
import io.rejoin.flink.trainers.LogisticRegressionModel;
import io.rejoin.flink.trainers.OnlineLogisticRegression;
import java.util.Arrays;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Logistic regression on the lines of files; its models go into a folder, a line each. */
public class Train {
  /** With the folder of the lines, and that of the models. */
  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
    environment.enableCheckpointing(10_000);
    OnlineLogisticRegression trainer =
        new OnlineLogisticRegression(Line.FEATURES, new Ftrl().l1(0.01));
    Rejoin.train(
            Rejoin.source(
                    environment,
                    FileSource.forRecordStreamFormat(
                            new TextLineInputFormat(), new Path(arguments[0]))
                        .build(),
                    WatermarkStrategy.noWatermarks(),
                    "lines")
                .map(new Line()),
            trainer)
        .uid("train")
        .map(model -> text(model, trainer))
        .sinkTo(
            FileSink.forRowFormat(new Path(arguments[1]), new SimpleStringEncoder<String>())
                .build())
        .uid("models");
    environment.execute("train");
  }

  private static String text(TrainedModel trained, OnlineLogisticRegression trainer)
      throws Exception {
    LogisticRegressionModel model = trained.read(trainer);
    return trained.getVersion()
        + " "
        + model.intercept()
        + " "
        + Arrays.toString(model.coefficients());
  }
}
