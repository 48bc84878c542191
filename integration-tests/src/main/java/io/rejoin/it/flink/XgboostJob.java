package io.rejoin.it.flink;

import io.rejoin.flink.RejoinXGBoost;
import io.rejoin.flink.XgboostModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.types.Row;

/** XGBoost on a {@link FixedSplitsSource}, as a user would write it. */
final class XgboostJob {
  /** A part of the name of the operator that trains. */
  static final String TRAINER = "train XGBoost";

  private final FixedSplitsSource source;
  private final Path folder;
  private final int rounds;
  private XgboostKind kind = XgboostKind.CLASSIFICATION;
  private boolean exchanges;
  private boolean failsAtItsEnd;

  /** On splits of these lengths; the model goes into a folder. */
  XgboostJob(long[] lengths, Path folder, int rounds) {
    source = new FixedSplitsSource(lengths, 0);
    this.folder = folder;
    this.rounds = rounds;
    for (int split = 0; split < lengths.length; split++) {
      source.gate(split, lengths[split] / 2, gate().toString());
    }
  }

  /** Readers wait half way until this file is there. */
  Path gate() {
    return folder.resolve("gate");
  }

  /** Where the model is when the job has finished. */
  Path model() {
    return folder.resolve("model");
  }

  /** Trains this; a classification if nothing is said. */
  XgboostJob kind(XgboostKind what) {
    kind = what;
    return this;
  }

  /** With an exchange of rows among the subtasks, between source and training. */
  XgboostJob exchanging() {
    exchanges = true;
    return this;
  }

  /** The first snapshot behind its model fails. */
  XgboostJob failingAtItsEnd() {
    failsAtItsEnd = true;
    return this;
  }

  /** Builds it into an environment. */
  void build(StreamExecutionEnvironment environment) {
    DataStream<Row> rows =
        environment
            .fromSource(
                source,
                WatermarkStrategy.noWatermarks(),
                "rows",
                TypeInformation.of(SplitRow.class))
            .uid("rows")
            .map(XgboostJob::row)
            .returns(
                Types.ROW_NAMED(
                    new String[] {"number", "x", "label", "grade", "weight", "query", "held"},
                    Types.LONG,
                    Types.PRIMITIVE_ARRAY(Types.DOUBLE),
                    Types.DOUBLE,
                    Types.INT,
                    Types.DOUBLE,
                    Types.LONG,
                    Types.BOOLEAN));
    if (exchanges) {
      rows =
          rows.partitionCustom(
              (number, partitions) -> (int) (number / 7 % partitions),
              row -> row.<Long>getFieldAs(0));
    }
    SingleOutputStreamOperator<XgboostModel> models =
        training().train(rows).uid("trainer").map(new File(model().toString()));
    if (failsAtItsEnd) {
      models =
          models
              .map(new FailingSnapshot<XgboostModel>(folder.resolve("failed")))
              .returns(XgboostModel.class);
    }
    models.sinkTo(new DiscardingSink<>());
  }

  private static Row row(SplitRow place) {
    XgboostRow row = XgboostRow.of(place.getSplit(), place.getNumber());
    return Row.of(
        place.getNumber(),
        row.features(),
        row.label(),
        row.grade(),
        row.weight(),
        row.query(),
        row.held());
  }

  private RejoinXGBoost training() {
    RejoinXGBoost training = new RejoinXGBoost(kind.parameters, rounds).features("x");
    switch (kind) {
      case CLASSIFICATION:
        return training.label("label").missing(0);
      case REGRESSION:
        return training
            .label("grade")
            .weight("weight")
            .evaluation("held")
            .earlyStopping(XgboostKind.STOPPING_ROUNDS);
      default:
        return training.label("grade").group("query");
    }
  }

  /** Where the model goes: it is there from one moment to the next. */
  private static final class File implements MapFunction<XgboostModel, XgboostModel> {
    private static final long serialVersionUID = 1L;

    private final String path;

    File(String path) {
      this.path = path;
    }

    @Override
    public XgboostModel map(XgboostModel model) throws IOException {
      Path file = Path.of(path);
      Path whole = Files.write(file.resolveSibling(UUID.randomUUID() + ""), model.getBytes());
      Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
      return model;
    }
  }
}
