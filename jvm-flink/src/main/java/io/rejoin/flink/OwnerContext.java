package io.rejoin.flink;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.BiConsumer;
import java.util.function.IntConsumer;
import org.apache.flink.api.connector.source.ReaderInfo;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.metrics.groups.SplitEnumeratorMetricGroup;

/** What a source's own enumerator has around it: it gives no splits to readers by itself. */
final class OwnerContext<S extends SourceSplit> implements SplitEnumeratorContext<S> {
  private final SplitEnumeratorContext<?> context;
  private final BiConsumer<Integer, List<S>> given;
  private final IntConsumer noMore;

  /**
   * With what is to be done instead.
   *
   * @param given to a reader
   * @param noMore for a reader
   */
  OwnerContext(
      SplitEnumeratorContext<?> context, BiConsumer<Integer, List<S>> given, IntConsumer noMore) {
    this.context = context;
    this.given = given;
    this.noMore = noMore;
  }

  @Override
  public void assignSplits(SplitsAssignment<S> assignment) {
    assignment.assignment().forEach(given);
  }

  @Override
  public void signalNoMoreSplits(int reader) {
    noMore.accept(reader);
  }

  @Override
  public SplitEnumeratorMetricGroup metricGroup() {
    return context.metricGroup();
  }

  @Override
  public void sendEventToSourceReader(int reader, SourceEvent event) {
    context.sendEventToSourceReader(reader, event);
  }

  @Override
  public void sendEventToSourceReader(int reader, int attempt, SourceEvent event) {
    context.sendEventToSourceReader(reader, attempt, event);
  }

  @Override
  public int currentParallelism() {
    return context.currentParallelism();
  }

  @Override
  public Map<Integer, ReaderInfo> registeredReaders() {
    return context.registeredReaders();
  }

  @Override
  public Map<Integer, Map<Integer, ReaderInfo>> registeredReadersOfAttempts() {
    return context.registeredReadersOfAttempts();
  }

  @Override
  public <T> void callAsync(Callable<T> callable, BiConsumer<T, Throwable> handler) {
    context.callAsync(callable, handler);
  }

  @Override
  public <T> void callAsync(
      Callable<T> callable, BiConsumer<T, Throwable> handler, long delayMillis, long everyMillis) {
    context.callAsync(callable, handler, delayMillis, everyMillis);
  }

  @Override
  public void runInCoordinatorThread(Runnable what) {
    context.runInCoordinatorThread(what);
  }

  @Override
  public void setIsProcessingBacklog(boolean isProcessing) {
    context.setIsProcessingBacklog(isProcessing);
  }
}
