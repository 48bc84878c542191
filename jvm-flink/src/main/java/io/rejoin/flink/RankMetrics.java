package io.rejoin.flink;

import java.util.concurrent.TimeUnit;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;

/**
 * What Flink's metrics show of a rank, in the group {@code rejoin} of its operator: version, rows
 * (in the model, of all ranks), batches (of this attempt), peerWaitMillis (what this rank has
 * waited for the others' batches), incarnation (how often the rank was started before), and
 * startMillis (from the task's start to its first new version).
 */
final class RankMetrics {
  private final long opened = System.nanoTime();
  private final Counter batches;
  private final Counter peerWait;
  private long waitedNanos;
  private volatile int version;
  private volatile long rows;
  private volatile int incarnation;
  private volatile long startMillis = -1;

  RankMetrics(MetricGroup operator) {
    MetricGroup group = operator.addGroup("rejoin");
    batches = group.counter("batches");
    peerWait = group.counter("peerWaitMillis");
    group.gauge("version", () -> version);
    group.gauge("rows", () -> rows);
    group.gauge("incarnation", () -> incarnation);
    group.gauge("startMillis", () -> startMillis);
  }

  void started(int number, VersionState state) {
    incarnation = number;
    version = state.version();
    rows = state.positions().rows();
  }

  void waited(long nanos) {
    waitedNanos += nanos;
    long millis = TimeUnit.NANOSECONDS.toMillis(waitedNanos);
    peerWait.inc(millis);
    waitedNanos -= TimeUnit.MILLISECONDS.toNanos(millis);
  }

  /** Whether it is the first one of this attempt. */
  boolean complete(VersionState state) {
    batches.inc();
    version = state.version();
    rows = state.positions().rows();
    boolean isFirst = startMillis < 0;
    if (isFirst) {
      startMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - opened);
    }
    return isFirst;
  }
}
