package io.rejoin.spark;

import io.rejoin.JobTotals;
import io.rejoin.TrainingEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.ToLongFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;

/**
 * The jobs of one application that run now, and the sums of those that are over: what its metrics
 * are made of. Safe to use from several threads.
 */
final class RunningJobs {
  private static final Map<SparkContext, RunningJobs> ALL = new WeakHashMap<>();

  private final List<RunningJob> running = new ArrayList<>();
  private long ended;
  private long failed;
  private long deaths;
  private long recoveries;
  private long roundsAgain;
  private long lostMillis;

  /** Those of this application, whose metrics are registered when it trains first. */
  static RunningJobs of(SparkContext context) {
    synchronized (ALL) {
      RunningJobs jobs = ALL.get(context);
      if (jobs == null) {
        jobs = new RunningJobs();
        ALL.put(context, jobs);
        SparkEnv.get().metricsSystem().registerSource(new RejoinMetrics(jobs));
      }
      return jobs;
    }
  }

  /**
   * A job begins.
   *
   * @param pageBytes of its stored input, in one copy
   */
  synchronized RunningJob begin(int ranks, long pageBytes) {
    RunningJob begun = new RunningJob(ranks, pageBytes);
    running.add(begun);
    return begun;
  }

  synchronized long running() {
    return running.size();
  }

  synchronized long ended() {
    return ended;
  }

  synchronized long failed() {
    return failed;
  }

  synchronized long deaths() {
    return deaths + sum(job -> job.totals.deaths());
  }

  synchronized long recoveries() {
    return recoveries + sum(job -> job.totals.recoveries());
  }

  synchronized long roundsAgain() {
    return roundsAgain + sum(job -> job.totals.roundsAgain());
  }

  synchronized long lostMillis() {
    long now = System.nanoTime();
    return lostMillis + sum(job -> job.totals.lostMillis(now));
  }

  /** Of what only jobs that run have, summed over them. */
  synchronized long sum(ToLongFunction<RunningJob> what) {
    return running.stream().mapToLong(what).sum();
  }

  /** The least among the jobs that run; 0 when none does. */
  synchronized long least(ToLongFunction<JobTotals> what) {
    return running.stream().mapToLong(job -> what.applyAsLong(job.totals)).min().orElse(0);
  }

  /** One job, from its first task to its end. */
  final class RunningJob implements AutoCloseable {
    private final JobTotals totals = new JobTotals();
    private final int ranks;
    private final long pageBytes;
    private volatile boolean hasModel;

    private RunningJob(int ranks, long pageBytes) {
      this.ranks = ranks;
      this.pageBytes = pageBytes;
    }

    /** Its next event. */
    void accept(TrainingEvent event) {
      totals.accept(event);
      hasModel |= event.kind() == TrainingEvent.Kind.JOB_ENDED;
    }

    int ranks() {
      return ranks;
    }

    long pageBytes() {
      return pageBytes;
    }

    JobTotals totals() {
      return totals;
    }

    /** It is over; what it has cost stays in the application's sums. */
    @Override
    public void close() {
      synchronized (RunningJobs.this) {
        running.remove(this);
        ended += hasModel ? 1 : 0;
        failed += hasModel ? 0 : 1;
        deaths += totals.deaths();
        recoveries += totals.recoveries();
        roundsAgain += totals.roundsAgain();
        lostMillis += totals.lostMillis(System.nanoTime());
      }
    }
  }
}
