package io.rejoin.it.flink;

import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Rows as texts into files, exactly once and with forward edges alone: a job without training. */
final class CopyJob {
  /** The name of its only operator. */
  static final String NAME = "copy";

  private CopyJob() {}

  /** Builds it into an environment. */
  static void build(StreamExecutionEnvironment environment, FixedSplitsSource source, Path output) {
    environment
        .fromSource(
            source, WatermarkStrategy.noWatermarks(), "rows", TypeInformation.of(SplitRow.class))
        .map(SplitRow::toString, Types.STRING)
        .name(NAME)
        .sinkTo(
            FileSink.forRowFormat(
                    new org.apache.flink.core.fs.Path(output.toUri()),
                    new SimpleStringEncoder<String>())
                .build());
  }
}
