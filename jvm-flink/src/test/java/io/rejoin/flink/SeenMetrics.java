package io.rejoin.flink;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/**
 * A metric reporter by which a test sees what Flink's reporters do; also of tasks that are over.
 */
public final class SeenMetrics implements MetricReporter, MetricReporterFactory {
  private static final Map<String, Metric> SEEN = new ConcurrentHashMap<>();

  /** The settings of an environment that has it. */
  static Map<String, String> settings() {
    SEEN.clear();
    return Map.of("metrics.reporter.seen.factory.class", SeenMetrics.class.getName());
  }

  /** The values of all metrics with this name in Rejoin's groups, in the order of their scopes. */
  static List<Long> of(String name) {
    return SEEN.entrySet().stream()
        .filter(each -> each.getKey().endsWith(".rejoin." + name))
        .sorted(Map.Entry.comparingByKey())
        .map(each -> value(each.getValue()))
        .collect(Collectors.toList());
  }

  private static long value(Metric metric) {
    return metric instanceof Counter
        ? ((Counter) metric).getCount()
        : ((Number) ((Gauge<?>) metric).getValue()).longValue();
  }

  @Override
  public MetricReporter createMetricReporter(Properties properties) {
    return this;
  }

  @Override
  public void open(MetricConfig configuration) {
    // Nothing has to be made ready.
  }

  @Override
  public void close() {
    // What was seen stays.
  }

  @Override
  public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
    SEEN.put(group.getMetricIdentifier(name), metric);
  }

  @Override
  public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {
    // A test looks at it when the job is over.
  }
}
