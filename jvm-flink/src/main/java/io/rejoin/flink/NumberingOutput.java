package io.rejoin.flink;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.types.Row;

/** Gives the rows of a source's reader their numbers; watermarks pass unchanged. */
final class NumberingOutput<T> implements ReaderOutput<T> {
  private final ReaderOutput<Row> records;
  private final SplitCounts<?> counts;

  NumberingOutput(ReaderOutput<Row> records, SplitCounts<?> counts) {
    this.records = records;
    this.counts = counts;
  }

  /** Whether records go there. */
  boolean isOf(ReaderOutput<Row> other) {
    return records == other;
  }

  @Override
  public void collect(T row) {
    records.collect(counts.ofOnly().number(row));
  }

  @Override
  public void collect(T row, long timestamp) {
    records.collect(counts.ofOnly().number(row), timestamp);
  }

  @Override
  public void emitWatermark(Watermark watermark) {
    records.emitWatermark(watermark);
  }

  @Override
  public void markIdle() {
    records.markIdle();
  }

  @Override
  public void markActive() {
    records.markActive();
  }

  @Override
  public SourceOutput<T> createOutputForSplit(String split) {
    return new OfSplit<>(records.createOutputForSplit(split), counts.of(split));
  }

  @Override
  public void releaseOutputForSplit(String split) {
    records.releaseOutputForSplit(split);
  }

  private static final class OfSplit<T> implements SourceOutput<T> {
    private final SourceOutput<Row> records;
    private final SplitCounts.Count count;

    OfSplit(SourceOutput<Row> records, SplitCounts.Count count) {
      this.records = records;
      this.count = count;
    }

    @Override
    public void collect(T row) {
      records.collect(count.number(row));
    }

    @Override
    public void collect(T row, long timestamp) {
      records.collect(count.number(row), timestamp);
    }

    @Override
    public void emitWatermark(Watermark watermark) {
      records.emitWatermark(watermark);
    }

    @Override
    public void markIdle() {
      records.markIdle();
    }

    @Override
    public void markActive() {
      records.markActive();
    }
  }
}
