package io.rejoin.flink;

import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;
import org.apache.flink.util.UserCodeClassLoader;

/** What a source's own reader has around it: it asks for splits as it is told here. */
final class AskingContext implements SourceReaderContext {
  private final SourceReaderContext context;
  private final Runnable ask;

  AskingContext(SourceReaderContext context, Runnable ask) {
    this.context = context;
    this.ask = ask;
  }

  @Override
  public void sendSplitRequest() {
    ask.run();
  }

  @Override
  public SourceReaderMetricGroup metricGroup() {
    return context.metricGroup();
  }

  @Override
  public Configuration getConfiguration() {
    return context.getConfiguration();
  }

  @Override
  public String getLocalHostName() {
    return context.getLocalHostName();
  }

  @Override
  public int getIndexOfSubtask() {
    return context.getIndexOfSubtask();
  }

  @Override
  public void sendSourceEventToCoordinator(SourceEvent event) {
    context.sendSourceEventToCoordinator(event);
  }

  @Override
  public UserCodeClassLoader getUserCodeClassLoader() {
    return context.getUserCodeClassLoader();
  }

  @Override
  public int currentParallelism() {
    return context.currentParallelism();
  }
}
