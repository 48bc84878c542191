package io.rejoin.spark.ui;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings a job's events to the tab, and to Spark's event log what the history server needs of them:
 * what changes the job's state, and how far it is, every two seconds at first and ever more seldom
 * later. A long training writes some hundreds of events more than a short one. For one thread.
 */
public final class JobRecorder implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(JobRecorder.class);

  private static final long LEAST_MILLIS = 2_000;

  /** So many times in its life so far a job's progress is written, once it is older than that. */
  private static final long SHARE = 100;

  /** What says how far a job is. */
  private static final Set<Kind> PROGRESS =
      EnumSet.of(Kind.VERSION_ENTERED, Kind.USAGE, Kind.PRINTED);

  /** An error may hold the traces of all ranks. */
  private static final int LONGEST_TEXT = 4_000;

  private final String job;
  private final TabJobs jobs;
  private final Consumer<TrainingEvent> log;
  private final long began;
  private long lastProgress;
  private boolean hasNew;
  private boolean over;
  private boolean failed;

  /**
   * A job begins.
   *
   * @param facts what is known of it, by the names that {@link JobPage} has
   * @param log what Spark's event log is to have
   */
  JobRecorder(JobId job, Map<String, String> facts, TabJobs jobs, Consumer<TrainingEvent> log) {
    this.job = job.toString();
    this.jobs = jobs;
    this.log = log;
    this.began = System.currentTimeMillis();
    this.lastProgress = began;
    guarded(() -> record(TrainingEvent.recorded(JobView.BEGAN, facts, nanos(began))));
  }

  /** The next event. Never throws: a tab that can't be shown must not end a training. */
  public void accept(TrainingEvent event) {
    long age = System.nanoTime() - event.atNanos();
    guarded(
        () ->
            record(
                TrainingEvent.recorded(
                    event.name(),
                    shortened(event.fields()),
                    nanos(System.currentTimeMillis()) - age)));
  }

  /** Nothing comes any more; the job has ended, or its fit was interrupted before. */
  @Override
  public void close() {
    if (!over) {
      long now = nanos(System.currentTimeMillis());
      guarded(() -> record(TrainingEvent.recorded(JobView.ABANDONED, Map.of(), now)));
    }
  }

  private void record(TrainingEvent event) {
    boolean changes = jobs.accept(job, event);
    over |= event.kind() == Kind.JOB_ENDED || event.kind() == Kind.JOB_FAILED;
    if (changes) {
      // So that the log says where the ranks were then.
      progress(JobView.millis(event));
      log.accept(event);
    } else if (PROGRESS.contains(event.kind())) {
      hasNew = true;
      long at = JobView.millis(event);
      if (at - lastProgress >= Math.max(LEAST_MILLIS, (at - began) / SHARE)) {
        progress(at);
      }
    }
  }

  private void progress(long at) {
    if (hasNew) {
      hasNew = false;
      lastProgress = at;
      jobs.progress(job).ifPresent(log);
    }
  }

  private void guarded(Runnable work) {
    if (failed) {
      return;
    }
    try {
      work.run();
    } catch (RuntimeException | LinkageError e) {
      failed = true;
      LOG.warn("job {} is shown in Spark's web UI only up to here; it trains on", job, e);
    }
  }

  private static Map<String, String> shortened(Map<String, String> fields) {
    Map<String, String> all = new LinkedHashMap<>();
    fields.forEach(
        (name, text) ->
            all.put(
                name,
                text.length() <= LONGEST_TEXT ? text : text.substring(0, LONGEST_TEXT) + " …"));
    return all;
  }

  private static long nanos(long millis) {
    return TimeUnit.MILLISECONDS.toNanos(millis);
  }
}
