package io.rejoin.it.flink;

import io.rejoin.flink.Rejoin;
import io.rejoin.flink.TrainedModel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A training on a {@link FixedSplitsSource}, as a user would write it. */
public final class TrainingJob {
  /** A part of the name of the operator that trains. */
  static final String TRAINER = "train SplitTrainer";

  // So many that an allreduce has thousands of bytes, at a random one of which a rank is killed.
  private static final int FEATURES = 400;

  private final long[] lengths;
  private final FixedSplitsSource source;
  private final Path folder;
  private List<JobFault> faults = List.of();
  private boolean isBySplit;
  private boolean failsAtItsEnd;

  /** On splits of these lengths; its models, and marks of its faults, go into a folder. */
  TrainingJob(long[] lengths, Path folder) {
    this.lengths = lengths.clone();
    this.folder = folder;
    source = new FixedSplitsSource(lengths, FEATURES);
  }

  /** With these faults, as {@link JobFault#parse} reads them. */
  TrainingJob faults(List<String> texts) {
    faults = texts.stream().map(text -> JobFault.parse(text, folder)).toList();
    source.faults(faults);
    return this;
  }

  /** Its rows come by {@code Rejoin.source}. */
  TrainingJob bySplit() {
    isBySplit = true;
    return this;
  }

  /** The first snapshot behind its last model fails. */
  TrainingJob failingAtItsEnd() {
    failsAtItsEnd = true;
    return this;
  }

  /** Its rules. */
  List<JobFault> faults() {
    return faults;
  }

  /** Where its rows come from. */
  FixedSplitsSource source() {
    return source;
  }

  /** Builds it into an environment. */
  void build(StreamExecutionEnvironment environment) {
    SingleOutputStreamOperator<TrainedModel> models =
        models(environment, new SplitTrainer(FEATURES, lengths.length, faults))
            .uid("trainer")
            .map(new ModelFile(folder, faults))
            .name("models")
            .uid("models");
    if (failsAtItsEnd) {
      models =
          models
              .map(new FailingSnapshot<TrainedModel>(folder.resolve("failed")))
              .returns(TrainedModel.class);
    }
    models.sinkTo(new DiscardingSink<>());
  }

  private SingleOutputStreamOperator<TrainedModel> models(
      StreamExecutionEnvironment environment, SplitTrainer trainer) {
    WatermarkStrategy<SplitRow> none = WatermarkStrategy.noWatermarks();
    return isBySplit
        ? Rejoin.train(Rejoin.source(environment, source, none, "rows").uid("rows"), trainer)
        : Rejoin.train(
            environment
                .fromSource(source, none, "rows", TypeInformation.of(SplitRow.class))
                .uid("rows"),
            trainer);
  }

  /** All readers wait before this row of their splits until there is a file of this name. */
  void gate(long row, Path file) {
    for (int split = 0; split < lengths.length; split++) {
      source.gate(split, row, file.toString());
    }
  }

  /**
   * Runs it wherever Flink's command line says. Arguments are {@code key=value}: {@code folder} for
   * the models; {@code lengths} of the splits, joined by commas; {@code row} and {@code gate},
   * where readers wait until there is a file of that name.
   *
   * @param arguments as said
   */
  public static void main(String[] arguments) throws Exception {
    Map<String, String> values = new LinkedHashMap<>();
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      values.put(pair[0], pair[1]);
    }
    long[] lengths =
        Arrays.stream(values.get("lengths").split(",")).mapToLong(Long::parseLong).toArray();
    Path folder = Files.createDirectories(Path.of(values.get("folder")));
    TrainingJob job = new TrainingJob(lengths, folder);
    job.gate(Long.parseLong(values.get("row")), Path.of(values.get("gate")));
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
    job.build(environment);
    environment.execute("training");
  }
}
