package io.rejoin.flink;

import org.apache.flink.api.common.eventtime.TimestampAssigner;
import org.apache.flink.api.common.eventtime.TimestampAssignerSupplier;
import org.apache.flink.api.common.eventtime.WatermarkAlignmentParams;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.types.Row;

/** A user's watermarks for rows, on the records of rows with their numbers. */
final class NumberedWatermarks<T> implements WatermarkStrategy<Row> {
  private static final long serialVersionUID = 1L;

  private final WatermarkStrategy<T> rows;

  NumberedWatermarks(WatermarkStrategy<T> rows) {
    this.rows = rows;
  }

  @Override
  public TimestampAssigner<Row> createTimestampAssigner(TimestampAssignerSupplier.Context context) {
    TimestampAssigner<T> assigner = rows.createTimestampAssigner(context);
    return (record, timestamp) -> assigner.extractTimestamp(NumberedRow.row(record), timestamp);
  }

  @Override
  public WatermarkGenerator<Row> createWatermarkGenerator(
      WatermarkGeneratorSupplier.Context context) {
    WatermarkGenerator<T> generator = rows.createWatermarkGenerator(context);
    return new WatermarkGenerator<>() {
      @Override
      public void onEvent(Row record, long timestamp, WatermarkOutput output) {
        generator.onEvent(NumberedRow.row(record), timestamp, output);
      }

      @Override
      public void onPeriodicEmit(WatermarkOutput output) {
        generator.onPeriodicEmit(output);
      }
    };
  }

  @Override
  public WatermarkAlignmentParams getAlignmentParameters() {
    return rows.getAlignmentParameters();
  }
}
