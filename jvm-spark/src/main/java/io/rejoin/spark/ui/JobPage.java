package io.rejoin.spark.ui;

import io.rejoin.TrainingEvent;
import io.rejoin.Words;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.function.LongFunction;

/** The page of one job. */
final class JobPage {
  private final JobView job;
  private final LongFunction<String> dates;
  private final Function<String, Map<String, String>> logs;
  private final Html html = new Html();

  /**
   * Of a job.
   *
   * @param dates writes a time, in milliseconds since 1970
   * @param logs the addresses of an executor's logs, by their names
   */
  JobPage(JobView job, LongFunction<String> dates, Function<String, Map<String, String>> logs) {
    this.job = job;
    this.dates = dates;
    this.logs = logs;
  }

  /** All of it. */
  String html() {
    html.raw("<div id=\"rejoin-job\">").element("h4", "Job " + job.brief() + ": " + job.state());
    failure();
    summary();
    html.element("h4", "Timeline").raw(new Timeline(job).svg());
    html.element("h4", "What recovery cost");
    costs();
    html.element("h4", "Ranks");
    ranks();
    html.element("h4", "Budgets and memory");
    budgets();
    notes();
    return html.raw("</div>").toString();
  }

  private void failure() {
    TrainingEvent end = job.end();
    if (end != null && end.kind() != TrainingEvent.Kind.JOB_ENDED) {
      String why =
          end.name().equals(JobView.ABANDONED)
              ? "its fit ended before the job did"
              : end.sentence("{code}: {message}");
      html.element("pre", why, "id", "rejoin-error", "class", "alert alert-danger");
    }
  }

  private void summary() {
    html.raw("<ul class=\"list-unstyled\" id=\"rejoin-summary\">");
    item("Started", dates.apply(job.began()));
    item(job.isOver() ? "Took" : "Trains for", Html.duration(job.newest() - job.began()));
    item("Progress", progress(job));
    if (!job.evaluation().isEmpty()) {
      item("Evaluation", job.evaluation().replace('\t', ' '));
    }
    item("Ranks", there(job));
    item("Deaths", deaths());
    if (!job.recoveries().isEmpty()) {
      item("Saved against fail-all", saved());
    }
    if (!job.transport().isEmpty()) {
      item("XGBoost's collectives", job.transport());
    }
    if (job.end() != null && job.end().kind() == TrainingEvent.Kind.JOB_ENDED) {
      item("Model", job.end().text("digest"));
    }
    html.raw("</ul>");
  }

  private String deaths() {
    int deaths = job.deaths();
    int moves = job.recoveries().size() - deaths;
    if (job.recoveries().isEmpty()) {
      return "none";
    }
    Costs costs = job.costs();
    return (deaths == 0 ? "none" : deaths)
        + (moves == 0
            ? ""
            : moves == 1 ? " (a rank was moved)" : " (ranks were moved " + moves + " times)")
        + ", for which training stood still for "
        + Html.duration(costs.stoodStillMillis())
        + "; computed again: "
        + rounds(costs.roundsAgain());
  }

  private String rounds(long count) {
    return count + (job.hasRounds() ? " round" : " version") + (count == 1 ? "" : "s");
  }

  /** How far a job is. */
  static String progress(JobView job) {
    return job.hasRounds()
        ? job.round() + " of " + job.number("rounds") + " rounds (version " + job.version() + ")"
        : "version " + job.version();
  }

  /** How many ranks there are. */
  static String there(JobView job) {
    long spares = job.number("spares");
    return job.ranksThere()
        + " of "
        + job.world()
        + (spares > 0 ? ", and " + spares + (spares == 1 ? " spare" : " spares") : "");
  }

  private String saved() {
    return String.format(
        Locale.ROOT,
        "%.1f executor-seconds: what all ranks had trained until each death, less what was computed"
            + " again",
        job.costs().savedMillis() / 1e3);
  }

  private void item(String name, Object value) {
    html.raw("<li><strong>").text(name + ": ").raw("</strong>").text(value).raw("</li>");
  }

  private void costs() {
    if (job.recoveries().isEmpty()) {
      html.element("p", "No rank was lost.", "id", "rejoin-no-deaths");
      return;
    }
    html.table(
        "rejoin-recoveries",
        "Rank",
        "Death",
        "When",
        "Executor",
        "Detection",
        "Rescheduling",
        "Restore",
        "Reload",
        "Replay",
        "Total",
        "Again",
        "Then on",
        "What was seen");
    for (Recovery each : job.recoveries()) {
      html.raw("<tr>").cell(each.rank()).cell(each.death());
      html.cell("after " + Html.duration(each.died() - job.began()), each.died());
      executor(each.executor());
      for (Recovery.Part part : Recovery.Part.values()) {
        duration(each.millis(part));
      }
      duration(each.isOver() ? OptionalLong.of(each.ended() - each.died()) : OptionalLong.empty());
      html.cell(again(each), each.roundsAgain());
      executor(each.newExecutor());
      html.cell(each.reason()).raw("</tr>");
    }
    html.raw("<tr id=\"rejoin-sums\">").element("td", "All", "colspan", 4);
    for (Recovery.Part part : Recovery.Part.values()) {
      duration(job.costs().millis(part));
    }
    duration(
        OptionalLong.of(
            job.recoveries().stream()
                .filter(Recovery::isOver)
                .mapToLong(each -> each.ended() - each.died())
                .sum()));
    html.cell(job.costs().roundsAgain()).raw("<td></td><td></td></tr>").endTable();
    html.element(
        "p",
        "Detection: from the last sign of life until the rank was declared lost. Rescheduling:"
            + " until a task had joined in its place. Restore: until it had the checkpoint. Reload:"
            + " until it had read its rows. Replay: until it had computed again what was lost. The"
            + " other ranks wait meanwhile; deaths at the same time overlap.",
        "class",
        "text-muted");
  }

  private String again(Recovery each) {
    return rounds(each.roundsAgain())
        + ", "
        + Html.bytes(each.replayedBytes())
        + " replayed, checkpoint of "
        + Html.bytes(each.restoredBytes())
        + (each.source().isEmpty() ? "" : " from " + each.source());
  }

  private void duration(OptionalLong millis) {
    html.cell(millis.isPresent() ? Html.duration(millis.getAsLong()) : "–", millis.orElse(-1));
  }

  /** A cell with its host and links to its logs. */
  private void executor(String executor) {
    html.raw("<td>");
    if (!executor.isEmpty()) {
      String host = job.host(executor);
      html.text(executor + (host.isEmpty() ? "" : " on " + host));
      links(executor);
    }
    html.raw("</td>");
  }

  private void links(String executor) {
    logs.apply(executor).forEach((name, address) -> html.raw(" ").link(name, address));
  }

  private void ranks() {
    html.table(
        "rejoin-ranks",
        "Rank",
        "State",
        "Since",
        "Executor",
        "Logs",
        "Former executors",
        "Version",
        "Round",
        "Last seen",
        "Started",
        "Deaths left");
    long allowed = job.number("deaths_allowed");
    for (RankView each : job.ranks()) {
      html.raw("<tr>").cell(each.rank());
      html.raw("<td><span style=\"color:" + each.state().colour() + "\">&#9632;</span> ");
      html.text(each.state().word()).raw("</td>");
      html.cell(dates.apply(each.since()), each.since());
      String host = job.host(each.executor());
      html.cell(each.executor() + (host.isEmpty() ? "" : " on " + host));
      html.raw("<td>");
      links(each.executor());
      html.raw("</td><td>");
      for (String former : each.formerExecutors()) {
        html.text(former);
        links(former);
        html.raw(" ");
      }
      html.raw("</td>").cell(each.version()).cell(job.hasRounds() ? each.round() : "–");
      html.cell(each.lastSeen() == 0 ? "–" : dates.apply(each.lastSeen()), each.lastSeen());
      html.cell(each.lastSeen() == 0 ? "–" : Words.times(each.incarnation() + 1));
      html.cell(Math.max(0, allowed - each.deaths()) + " of " + allowed).raw("</tr>");
    }
    html.endTable();
  }

  private void budgets() {
    html.table("rejoin-budgets", "What", "Used", "Allowed", "Setting");
    long allowed = job.number("deaths_allowed");
    long most = job.ranks().stream().mapToLong(RankView::deaths).max().orElse(0);
    budget("deaths of one rank", most, allowed, job.fact("deaths_setting"));
    budget(
        "executors that may die at the same moment",
        "–",
        job.fact("at_once"),
        job.fact("at_once_setting"));
    Memory memory = job.memory();
    budget(
        "logs in memory, most of one executor",
        Html.bytes(memory.mostOfOne(Memory.Held.LOGS)),
        Html.bytes(job.number("log_memory")),
        "spark.rejoin.log.memory");
    budget(
        "logs on disk, most of one executor",
        Html.bytes(memory.mostOfOne(Memory.Held.SPILLED)),
        Html.bytes(job.number("log_disk")),
        "spark.rejoin.log.disk");
    html.endTable();
    html.table(
        "rejoin-memory", "Held for ranks that come back", "Now, all executors", "Most of one");
    held("logs in memory", Memory.Held.LOGS);
    held("logs on disk", Memory.Held.SPILLED);
    held("checkpoints in memory", Memory.Held.CHECKPOINTS);
    html.raw("<tr>").cell("pages of input, one copy").cell(Html.bytes(job.number("page_bytes")));
    html.cell("–").raw("</tr>").endTable();
  }

  private void budget(String what, Object used, Object allowed, String setting) {
    html.raw("<tr>").cell(what).cell(used).cell(allowed).cell(setting).raw("</tr>");
  }

  private void held(String what, Memory.Held held) {
    html.raw("<tr>").cell(what).cell(Html.bytes(job.memory().now(held)));
    html.cell(Html.bytes(job.memory().mostOfOne(held))).raw("</tr>");
  }

  private void notes() {
    if (job.notes().isEmpty()) {
      return;
    }
    html.element("h4", "What else happened").raw("<ul id=\"rejoin-notes\">");
    job.notes().forEach((at, text) -> html.element("li", dates.apply(at) + ": " + text));
    html.raw("</ul>");
  }
}
