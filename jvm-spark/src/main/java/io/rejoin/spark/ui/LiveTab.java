package io.rejoin.spark.ui;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The tab of an application that runs, from its first training on. */
public final class LiveTab {
  private static final Logger LOG = LoggerFactory.getLogger(LiveTab.class);
  private static final Map<SparkContext, LiveTab> ALL = new WeakHashMap<>();

  /** Held by Spark's web UI, too; doesn't refer to the application, which is held weakly here. */
  private final TabJobs jobs = new TabJobs(System::currentTimeMillis);

  private final AtomicLong numbers = new AtomicLong();

  private LiveTab() {}

  /**
   * A job begins: the tab is attached if there is a web UI and the job is its first, and Spark's
   * event log gets what the history server needs, if there is one.
   *
   * @param facts what is known of the job, by the names that {@link JobPage} has
   */
  public static JobRecorder begin(SparkContext context, JobId job, Map<String, String> facts) {
    LiveTab tab = of(context);
    Consumer<TrainingEvent> log =
        context.isEventLogEnabled()
            ? event ->
                context
                    .listenerBus()
                    .post(PostedEvent.of(tab.numbers.getAndIncrement(), job.toString(), event))
            : event -> {};
    return new JobRecorder(job, facts, tab.jobs, log);
  }

  private static LiveTab of(SparkContext context) {
    synchronized (ALL) {
      LiveTab tab = ALL.get(context);
      if (tab == null) {
        tab = new LiveTab();
        ALL.put(context, tab);
        tab.attach(context);
      }
      return tab;
    }
  }

  private void attach(SparkContext context) {
    try {
      if (context.ui().isDefined()) {
        SparkTab.attach(context.ui().get(), () -> jobs);
      }
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      LOG.warn("Spark's web UI doesn't show trainings in a tab of their own: {}", e.toString(), e);
    }
  }
}
