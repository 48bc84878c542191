package io.rejoin.spark;

import io.rejoin.JobId;
import io.rejoin.JobTotals;
import io.rejoin.TrainingEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.WeakHashMap;
import java.util.function.ToLongFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;

/**
 * The jobs of one application that run now, and the sums of those that are over: what its metrics
 * and the line on its driver's terminal are made of. Safe to use from several threads.
 */
final class RunningJobs {
  private static final Map<SparkContext, RunningJobs> ALL = new WeakHashMap<>();

  private final List<RunningJob> running = new ArrayList<>();
  private Optional<ConsoleProgress> console = Optional.empty();
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
   * @param rounds so many are to be trained, at most; 0 if that is not known
   * @param pageBytes of its stored input, in one copy
   */
  RunningJob begin(SparkContext context, JobId job, int ranks, int rounds, long pageBytes) {
    RunningJob begun;
    synchronized (this) {
      if (running.isEmpty()) {
        console = ConsoleProgress.of(context, this::progress);
      }
      begun = new RunningJob(job, ranks, rounds, pageBytes, console);
      running.add(begun);
    }
    begun.console.ifPresent(ConsoleProgress::begin);
    return begun;
  }

  /** Of all jobs that run, in the order of their beginning. */
  synchronized List<JobProgress> progress() {
    List<JobProgress> all = new ArrayList<>();
    running.forEach(job -> all.add(job.progress()));
    return all;
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
    private final String job;
    private volatile int ranks;
    private final int rounds;
    private final long pageBytes;
    private final Optional<ConsoleProgress> console;
    private final long began = System.nanoTime();
    private volatile boolean hasModel;

    private RunningJob(
        JobId job, int ranks, int rounds, long pageBytes, Optional<ConsoleProgress> console) {
      this.job = job.brief();
      this.ranks = ranks;
      this.rounds = rounds;
      this.pageBytes = pageBytes;
      this.console = console;
    }

    /** Its next event. */
    void accept(TrainingEvent event) {
      totals.accept(event);
      hasModel |= event.kind() == TrainingEvent.Kind.JOB_ENDED;
      if (event.kind() == TrainingEvent.Kind.RESIZED) {
        ranks = (int) event.number("world");
      }
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

    private JobProgress progress() {
      return new JobProgress(
          job,
          rounds > 0 ? totals.round() : totals.version(),
          rounds,
          totals.ranksThere(),
          ranks,
          totals.deaths(),
          totals.metric());
    }

    /** The line that the driver's log has at the level info, which a shell's log doesn't show. */
    private String summary() {
      return String.format(
          "Job %s: %s %s%s",
          job,
          hasModel ? "ended" : "failed",
          totals.summary(began, System.nanoTime()),
          totals.metric().isEmpty() ? "" : "; " + totals.metric());
    }

    /** It is over; what it has cost stays in the application's sums. */
    @Override
    public void close() {
      synchronized (RunningJobs.this) {
        running.remove(this);
        if (running.isEmpty()) {
          // It refers to the application, which is held weakly here.
          RunningJobs.this.console = Optional.empty();
        }
        ended += hasModel ? 1 : 0;
        failed += hasModel ? 0 : 1;
        deaths += totals.deaths();
        recoveries += totals.recoveries();
        roundsAgain += totals.roundsAgain();
        lostMillis += totals.lostMillis(System.nanoTime());
      }
      console.ifPresent(terminal -> terminal.end(summary()));
    }
  }
}
