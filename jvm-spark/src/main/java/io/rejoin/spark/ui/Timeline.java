package io.rejoin.spark.ui;

import java.util.List;
import java.util.Locale;

/**
 * What each rank did when, as a picture (SVG, within the page): a row for each rank, and below them
 * how far the job was.
 */
final class Timeline {
  private static final int WIDTH = 1_200;
  private static final int LEFT = 72;
  private static final int RIGHT = 12;
  private static final int TOP = 24;
  private static final int CURVE = 70;
  private static final int GAP = 12;
  private static final int AXIS = 22;

  /** What lasts longer is a death; the shortest stretch that can be seen. */
  private static final double LEAST_WIDTH = 1.5;

  private final JobView job;
  private final Html html = new Html();
  private final long from;
  private final double span;
  private final int row;

  Timeline(JobView job) {
    this.job = job;
    this.from = job.began();
    this.span = Math.max(1_000, job.newest() - from);
    int ranks = job.ranks().size();
    this.row = ranks <= 8 ? 20 : ranks <= 60 ? 14 : 7;
  }

  /** The picture. */
  String svg() {
    int rows = job.ranks().size() * row;
    int height = TOP + rows + GAP + CURVE + AXIS;
    html.open(
        "svg",
        "id",
        "rejoin-timeline",
        "viewBox",
        "0 0 " + WIDTH + " " + height,
        "width",
        "100%",
        "style",
        "max-width:1600px;font:11px sans-serif",
        "role",
        "img",
        "aria-label",
        "what each rank did when");
    legend();
    ticks(TOP + rows + GAP + CURVE);
    standstills(TOP + rows + GAP + CURVE);
    int y = TOP;
    for (RankView rank : job.ranks()) {
      row(rank, y);
      y += row;
    }
    curve(TOP + rows + GAP);
    return html.close("svg").toString();
  }

  private void legend() {
    int x = LEFT;
    for (RankState each : RankState.values()) {
      box(x, 4, 11, 11, each.colour(), "");
      label(x + 15, 14, "start", each.word());
      x += 34 + 6 * each.word().length();
    }
    box(x, 4, 11, 11, "#fde0dd", "");
    label(x + 15, 14, "start", "training stands still");
  }

  private void ticks(int bottom) {
    long step = step();
    for (long at = 0; at <= span; at += step) {
      double x = x(from + at);
      html.open(
              "line", "x1", number(x), "x2", number(x), "y1", TOP, "y2", bottom, "stroke",
              "#e4e4e4")
          .close("line");
      label(x, bottom + 15, "middle", at == 0 ? "0" : Html.duration(at));
    }
  }

  /** At most ten of a round length. */
  private long step() {
    long[] rounds = {
      100,
      200,
      500,
      1_000,
      2_000,
      5_000,
      10_000,
      30_000,
      60_000,
      120_000,
      300_000,
      600_000,
      1_800_000,
      3_600_000,
      7_200_000,
      21_600_000,
      86_400_000
    };
    for (long each : rounds) {
      if (span / each <= 10) {
        return each;
      }
    }
    return (long) span / 10;
  }

  private void standstills(int bottom) {
    for (Costs.Standstill each : job.costs().standstills()) {
      String title = "training stands still for " + Html.duration(each.until() - each.from());
      double x = x(each.from());
      box(x, TOP, width(x, each.until()), bottom - TOP, "#fde0dd", title);
    }
  }

  private void row(RankView rank, int y) {
    if (row >= 10) {
      label(LEFT - 6, y + row / 2.0 + 4, "end", "rank " + rank.rank());
    } else if (rank.rank() % 10 == 0) {
      label(LEFT - 6, y + 8, "end", "rank " + rank.rank());
    }
    for (RankView.Stretch each : rank.stretches()) {
      long until = Math.min(each.until(), job.newest());
      if (until <= each.from() && each.state() != RankState.LOST) {
        continue;
      }
      double x = x(each.from());
      String title =
          "rank "
              + rank.rank()
              + ": "
              + each.state().word()
              + " for "
              + Html.duration(Math.max(0, until - each.from()));
      box(x, y + 1, width(x, until), row - 2, each.state().colour(), title);
    }
  }

  private void curve(int top) {
    List<JobView.Point> points = job.points();
    long most = Math.max(job.number("rounds"), 1);
    for (JobView.Point each : points) {
      most = Math.max(most, each.done());
    }
    String what = job.hasRounds() ? "rounds" : "versions";
    label(LEFT - 6, top + 10, "end", most + " " + what);
    label(LEFT - 6, top + CURVE, "end", "0");
    StringBuilder path = new StringBuilder();
    double last = top + CURVE;
    for (JobView.Point each : points) {
      double y = top + CURVE - (double) CURVE * each.done() / most;
      String x = number(x(each.at()));
      // It is flat until it isn't: what is known is when a version was entered.
      path.append(path.length() == 0 ? "" : x + "," + number(last) + " ");
      path.append(x).append(',').append(number(y)).append(' ');
      last = y;
    }
    if (path.length() > 0) {
      path.append(number(x(job.newest()))).append(',').append(number(last));
    }
    html.open(
            "polyline", "points", path, "fill", "none", "stroke", "#3182bd", "stroke-width", "1.5")
        .close("polyline");
  }

  private void box(double x, double y, double width, double height, String colour, String title) {
    html.open(
        "rect",
        "x",
        number(x),
        "y",
        number(y),
        "width",
        number(width),
        "height",
        number(height),
        "fill",
        colour);
    if (!title.isEmpty()) {
      html.element("title", title);
    }
    html.close("rect");
  }

  private void label(double x, double y, String anchor, String text) {
    html.element(
        "text", text, "x", number(x), "y", number(y), "text-anchor", anchor, "fill", "#333");
  }

  private double width(double x, long until) {
    return Math.max(LEAST_WIDTH, x(Math.min(until, job.newest())) - x);
  }

  private double x(long at) {
    double share = Math.min(1, Math.max(0, (at - from) / span));
    return LEFT + share * (WIDTH - LEFT - RIGHT);
  }

  private static String number(double value) {
    return String.format(Locale.ROOT, "%.1f", value);
  }
}
