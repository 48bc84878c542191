package io.rejoin.spark;

import java.util.List;
import java.util.Locale;

/** How far a job is, as people are shown it: a part of a line as wide as their terminal. */
final class JobProgress {
  /** Narrower, a job's progress says nothing; jobs beyond those that fit are not shown. */
  private static final int LEAST_WIDTH = 40;

  private final String job;
  private final long done;
  private final long all;
  private final int there;
  private final int ranks;
  private final int deaths;
  private final String metric;

  /**
   * A state of a job.
   *
   * @param job its brief id
   * @param done rounds, or versions where it is not known how many rounds there are to be
   * @param all so many rounds are to be; 0 if that is not known
   * @param there ranks that are there now
   * @param ranks how many there have to be
   * @param metric the newest one, with its name; may be empty
   */
  JobProgress(String job, long done, long all, int there, int ranks, int deaths, String metric) {
    this.job = job;
    this.done = done;
    this.all = all;
    this.there = there;
    this.ranks = ranks;
    this.deaths = deaths;
    this.metric = metric;
  }

  /** Jobs side by side, as Spark has its stages; the line has exactly this width. */
  static String line(List<JobProgress> jobs, int width) {
    int shown = Math.min(jobs.size(), Math.max(1, width / LEAST_WIDTH));
    StringBuilder line = new StringBuilder();
    for (JobProgress job : jobs.subList(0, shown)) {
      line.append(job.in(width / shown));
    }
    return fitted(line.toString(), width);
  }

  private String in(int width) {
    String head = "[Job " + job + ":";
    String tail = facts(metric.isEmpty() ? "" : ", " + metric);
    if (head.length() + tail.length() >= width) {
      tail = facts("");
    }
    int room = width - head.length() - tail.length();
    StringBuilder part = new StringBuilder(head);
    for (int i = 0; i < room; i++) {
      // One place is left free, so that the bar doesn't touch the first number.
      long bar = all == 0 ? -1 : Math.min(done, all) * (room - 1) / all;
      part.append(i < bar ? '=' : i == bar && i < room - 1 ? '>' : ' ');
    }
    return fitted(part + tail, width);
  }

  private String facts(String measured) {
    String how =
        all > 0
            ? String.format(Locale.ROOT, "%d/%d rounds", done, all)
            : String.format(Locale.ROOT, "version %d", done);
    String died = deaths == 0 ? "" : deaths == 1 ? ", 1 death" : ", " + deaths + " deaths";
    return String.format(Locale.ROOT, "%s%s, %d/%d ranks%s]", how, measured, there, ranks, died);
  }

  private static String fitted(String text, int width) {
    return text.length() > width
        ? text.substring(0, width)
        : text + " ".repeat(width - text.length());
  }
}
