package io.rejoin.spark.ui;

import io.rejoin.TrainingEvent;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;

/** The jobs of one application, and the tab's pages of them. Safe to use from several threads. */
final class TabJobs {
  /** Older ones are not shown. */
  static final int MOST = 100;

  private final Map<String, JobView> jobs = new LinkedHashMap<>();
  private final LongSupplier clock;

  /** Of an application that is over, or as it is in a log. */
  TabJobs() {
    this(() -> 0);
  }

  /** Of one that runs, with a clock in milliseconds since 1970. */
  TabJobs(LongSupplier clock) {
    this.clock = clock;
  }

  /** Takes a job's next event; returns what {@link JobView#accept} does. */
  synchronized boolean accept(String job, TrainingEvent event) {
    JobView view = jobs.get(job);
    if (view != null) {
      return view.accept(event);
    }
    if (!event.name().equals(JobView.BEGAN)) {
      // Of a job that is too old, or whose beginning is missing in a log.
      return false;
    }
    jobs.put(job, new JobView(job, event));
    // Of those that are over the oldest goes first, then of those that run.
    jobs.values().stream()
        .filter(JobView::isOver)
        .map(JobView::job)
        .limit(Math.max(0, jobs.size() - MOST))
        .collect(Collectors.toList())
        .forEach(jobs::remove);
    Iterator<String> oldest = jobs.keySet().iterator();
    while (jobs.size() > MOST) {
      oldest.next();
      oldest.remove();
    }
    return true;
  }

  /** How far a job is, as one event; empty for one that is too old. */
  synchronized Optional<TrainingEvent> progress(String job) {
    return Optional.ofNullable(jobs.get(job)).map(ProgressEvent::of);
  }

  /**
   * The tab's page: of this job; without one, of all of them, and of the only one.
   *
   * @param job as it stands in the page's address, or null
   * @param dates writes a time, in milliseconds since 1970
   * @param logs the addresses of an executor's logs, by their names
   */
  synchronized String html(
      String job, LongFunction<String> dates, Function<String, Map<String, String>> logs) {
    jobs.values().forEach(each -> each.now(clock.getAsLong()));
    if (job != null) {
      JobView view = jobs.get(job);
      return view == null ? unknown(job) : new JobPage(view, dates, logs).html();
    }
    if (jobs.size() == 1) {
      return new JobPage(jobs.values().iterator().next(), dates, logs).html();
    }
    return list(dates);
  }

  private static String unknown(String job) {
    return new Html()
        .element("p", "No job " + job + " is known here; the newest " + MOST + " are.")
        .raw("<p><a href=\"?\">All jobs</a></p>")
        .toString();
  }

  private String list(LongFunction<String> dates) {
    Html html = new Html();
    if (jobs.isEmpty()) {
      return html.element("p", "No job has begun yet.").toString();
    }
    html.table(
        "rejoin-jobs",
        "Job",
        "State",
        "Started",
        "Took",
        "Progress",
        "Ranks",
        "Deaths",
        "Stood still");
    List<JobView> newestFirst = new ArrayList<>(jobs.values());
    for (int i = newestFirst.size() - 1; i >= 0; i--) {
      JobView each = newestFirst.get(i);
      html.raw("<tr><td>").link(each.brief(), "?job=" + each.job()).raw("</td>");
      html.cell(each.state()).cell(dates.apply(each.began()), each.began());
      long took = each.newest() - each.began();
      html.cell(Html.duration(took), took).cell(JobPage.progress(each)).cell(JobPage.there(each));
      html.cell(each.deaths());
      long stood = each.costs().stoodStillMillis();
      html.cell(Html.duration(stood), stood).raw("</tr>");
    }
    return html.endTable().toString();
  }
}
