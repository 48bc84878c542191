package io.rejoin.flink;

import java.util.concurrent.TimeUnit;
import org.apache.flink.metrics.MetricGroup;

/**
 * What Flink's metrics show of a rank that trains with XGBoost, in the group {@code rejoin} of its
 * operator: rows (this rank's, once it has all of them), round (how many are in the model), and
 * startMillis (from the task's start to the first round that it has computed).
 */
final class XgboostMetrics {
  private final long opened = System.nanoTime();
  private volatile long rows;
  private volatile int round;
  private volatile long startMillis = -1;
  private int began = -1;

  XgboostMetrics(MetricGroup operator) {
    MetricGroup group = operator.addGroup("rejoin");
    group.gauge("rows", () -> rows);
    group.gauge("round", () -> round);
    group.gauge("startMillis", () -> startMillis);
  }

  void hasRows(long count) {
    rows = count;
  }

  /** So many rounds are in the model; those of the first call were there before. */
  void at(int rounds) {
    began = began < 0 ? rounds : began;
    round = rounds;
    if (startMillis < 0 && rounds > began) {
      startMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - opened);
    }
  }
}
