package io.rejoin.spark.ui;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import java.io.StringReader;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.xml.sax.InputSource;

class JobPageTest {
  private static final String EVIL = "<script>alert('x')</script>\"&\u001b[31m";

  private static String page(JobView view, String log) {
    return new JobPage(view, at -> "at " + at, executor -> Map.of("stderr", log)).html();
  }

  private static JobView evil() {
    JobView view = JobEvents.view(2);
    JobEvents.of(view)
        .begun(2)
        .joined(2_500, 0, 0, EVIL)
        .event(
            3_000,
            "RankLost",
            "rank",
            "1",
            "executor",
            EVIL,
            "reason",
            EVIL,
            "silent_millis",
            "0",
            "deaths",
            "1")
        .event(3_100, "RolledBack", "version", "1", "reason", EVIL)
        .event(3_200, "HookAgreed", "hooked", "true", "reason", EVIL)
        .event(4_000, "JobFailed", "code", EVIL, "message", EVIL);
    return view;
  }

  @Test
  void nothing_from_outside_is_markup() throws Exception {
    String page = page(evil(), "http://h/" + EVIL);
    assertFalse(page.contains("<script"), page);
    assertTrue(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"), page);
    // Whatever is in a text, the page is a tree of elements.
    DocumentBuilderFactory.newInstance()
        .newDocumentBuilder()
        .parse(new InputSource(new StringReader(page)));
  }

  @Test
  void an_address_that_is_no_page_is_no_link() {
    assertTrue(
        page(evil(), "https://h/log?a=1&b=2").contains("href=\"https://h/log?a=1&amp;b=2\""));
    assertFalse(page(evil(), "javascript:alert(1)").contains("href="));
  }

  @Test
  void a_job_that_is_asked_for_and_is_not_there_is_said_so() {
    TabJobs jobs = new TabJobs();
    String page = jobs.html(EVIL, at -> "", executor -> Map.of());
    assertTrue(page.contains("No job &lt;script&gt;"), page);
    assertEquals("<p>No job has begun yet.</p>", jobs.html(null, at -> "", executor -> Map.of()));
  }

  @Test
  void a_job_that_runs_stays_however_many_come_and_go_meanwhile() {
    TabJobs jobs = new TabJobs();
    for (int i = 1; i <= 2 * TabJobs.MOST; i++) {
      jobs.accept("a" + i, TrainingEvent.recorded(JobView.BEGAN, JobEvents.facts(3), 0));
      if (i > 1) {
        jobs.accept("a" + i, TrainingEvent.recorded("JobEnded", Map.of("digest", "abcdef"), 1));
      }
    }
    String list = jobs.html(null, at -> "", executor -> Map.of());
    assertTrue(list.contains("?job=a1\""), list);
    assertFalse(list.contains("?job=a2\""), "more than " + TabJobs.MOST + " jobs are kept");
    assertTrue(jobs.progress("a1").isPresent());
    assertTrue(jobs.progress("a2").isEmpty());
  }

  @Test
  void one_job_is_shown_at_once_and_of_several_a_list_with_the_newest_first() {
    TabJobs jobs = new TabJobs();
    jobs.accept("a1", TrainingEvent.recorded(JobView.BEGAN, JobEvents.facts(3), 0));
    assertTrue(jobs.html(null, at -> "", executor -> Map.of()).contains("rejoin-ranks"));
    for (int i = 2; i <= TabJobs.MOST + 1; i++) {
      jobs.accept("a" + i, TrainingEvent.recorded(JobView.BEGAN, JobEvents.facts(3), 0));
    }
    String list = jobs.html(null, at -> "", executor -> Map.of());
    assertTrue(list.indexOf("?job=a101") < list.indexOf("?job=a100"), list);
    assertFalse(list.contains("?job=a1\""), "more than " + TabJobs.MOST + " jobs are kept");
  }

  @Test
  void a_job_that_sends_no_event_is_seen_to_wait() {
    TabJobs jobs = new TabJobs(() -> 65_000);
    jobs.accept("a1", TrainingEvent.recorded(JobView.BEGAN, JobEvents.facts(2), 0));
    new JobEvents(event -> jobs.accept("a1", event), 0).begun(2).lost(5_000, 1, "1", 0, 1);
    String page = jobs.html(null, at -> "", executor -> Map.of());
    assertTrue(page.contains("rank 1: lost for 1 min 0 s"), page);
    assertTrue(page.contains("training stood still for 1 min 0 s"), page);
  }

  @Test
  void a_rank_that_is_moved_has_not_died() {
    TabJobs jobs = new TabJobs();
    jobs.accept("a1", TrainingEvent.recorded(JobView.BEGAN, JobEvents.facts(3), 0));
    JobEvents events = new JobEvents(event -> jobs.accept("a1", event), 0).begun(3);
    events.event(4_000, "RankMoved", "rank", "1", "executor", "1", "reason", "spot notice");
    events.lost(5_000, 1, "1", 0, 0).joined(5_200, 1, 1, "3").caughtUp(5_500, 1, 0);
    String page = jobs.html(null, at -> "", executor -> Map.of());
    assertTrue(page.contains("Deaths: </strong>none (a rank was moved), for which"), page);
    assertTrue(page.contains("<td>moved</td>"), page);
    events.lost(7_000, 2, "2", 0, 1);
    page = jobs.html(null, at -> "", executor -> Map.of());
    assertTrue(page.contains("Deaths: </strong>1 (a rank was moved), for which"), page);
    jobs.accept("a2", TrainingEvent.recorded(JobView.BEGAN, JobEvents.facts(3), 0));
    String list = jobs.html(null, at -> "", executor -> Map.of());
    assertTrue(list.contains("<td>2 of 3</td><td>1</td>"), list);
  }

  @Test
  void budgets_and_memory_have_what_is_used_beside_what_is_allowed() {
    JobView view = JobEvents.view(3);
    JobEvents.of(view)
        .begun(3)
        .lost(5_000, 1, "1", 0, 1)
        .lost(6_000, 1, "1", 0, 2)
        .lost(6_500, 2, "2", 0, 1)
        .usage(7_000, "0", 3 << 20)
        .usage(7_100, "3", 1 << 20)
        .usage(7_200, "0", 2 << 20);
    String page = page(view, "http://h/");
    assertEquals(
        List.of(
            "deaths of one rank|2|3|spark.task.maxFailures",
            "executors that may die at the same moment|–|1|spark.rejoin.input.replicas",
            "logs in memory, most of one executor|6.0 MiB|256.0 MiB|spark.rejoin.log.memory",
            "logs on disk, most of one executor|0 B|16.0 GiB|spark.rejoin.log.disk"),
        rows(page, "rejoin-budgets"));
    assertEquals(
        List.of(
            "logs in memory|3.0 MiB|6.0 MiB",
            "logs on disk|0 B|0 B",
            "checkpoints in memory|1.5 MiB|1.5 MiB",
            "pages of input, one copy|976.6 KiB|–"),
        rows(page, "rejoin-memory"));
  }

  /** The cells of a table's rows, but for its head. */
  private static List<String> rows(String page, String table) {
    String from = page.substring(page.indexOf("id=\"" + table + "\""));
    return Pattern.compile("<tr>((?:<td[^>]*>[^<]*</td>)+)</tr>")
        .matcher(from.substring(0, from.indexOf("</table>")))
        .results()
        .map(row -> row.group(1).replaceAll("</td><td[^>]*>", "|").replaceAll("</?td[^>]*>", ""))
        .collect(Collectors.toList());
  }

  @Test
  void fifty_ranks_have_a_row_each_in_picture_and_table() {
    JobView view = JobEvents.view(50);
    JobEvents.of(view).begun(50).lost(9_000, 17, "17", 1_000, 1).usage(12_000, "0", 10);
    String page = page(view, "http://h/");
    for (int rank = 0; rank < 50; rank++) {
      assertTrue(page.contains(">rank " + rank + "</text>"), "no row of rank " + rank);
    }
    assertTrue(page.contains("rank 17: lost for 4.0 s"), page);
  }
}
