package io.rejoin.spark;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import io.rejoin.JobTotals;
import java.util.function.LongSupplier;
import org.apache.spark.metrics.source.Source;

/**
 * The metrics of an application's trainings, in Spark's metrics system. docs/spark.md says what
 * each one is. None is of one job: names that come and go with jobs are of no use to who collects
 * them.
 */
final class RejoinMetrics implements Source {
  private final MetricRegistry registry = new MetricRegistry();

  RejoinMetrics(RunningJobs jobs) {
    gauge("jobs.running", jobs::running);
    gauge("jobs.ended", jobs::ended);
    gauge("jobs.failed", jobs::failed);
    gauge("ranks.world", () -> jobs.sum(RunningJobs.RunningJob::ranks));
    gauge("ranks.there", () -> jobs.sum(job -> job.totals().ranksThere()));
    gauge("version", () -> jobs.least(JobTotals::version));
    gauge("round", () -> jobs.least(JobTotals::round));
    gauge("deaths", jobs::deaths);
    gauge("recoveries", jobs::recoveries);
    gauge("rounds.again", jobs::roundsAgain);
    gauge("lost.millis", jobs::lostMillis);
    gauge("log.bytes", () -> jobs.sum(job -> job.totals().held("log_bytes")));
    gauge("spilled.bytes", () -> jobs.sum(job -> job.totals().held("spilled_bytes")));
    gauge("checkpoint.bytes", () -> jobs.sum(job -> job.totals().held("checkpoint_bytes")));
    gauge("page.bytes", () -> jobs.sum(RunningJobs.RunningJob::pageBytes));
  }

  private void gauge(String name, LongSupplier value) {
    registry.register(name, (Gauge<Long>) value::getAsLong);
  }

  @Override
  public String sourceName() {
    return "rejoin";
  }

  @Override
  public MetricRegistry metricRegistry() {
    return registry;
  }
}
