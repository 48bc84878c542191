package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Communicator;
import io.rejoin.Faults;
import io.rejoin.Reduction;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.spark.RejoinEstimator;
import io.rejoin.spark.RejoinSpark;
import java.io.File;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * The tab "Rejoin", in a real browser: of an application that trains, by its own web UI, and when
 * it is over by the history server of a real distribution.
 */
@DisplayName("the tab in Spark's web UI and in the history server")
class SparkTabIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);
  private static final int WORKERS = 3;
  private static final int MANY = 50;
  private static final int HELD = 5;
  private static final String VERSION = org.apache.spark.package$.MODULE$.SPARK_VERSION();

  // Made by this test; those in docs/ are Spark 3.5's, in fewer colours.
  private static final Path PICTURE = picture("spark-tab");
  private static final Path PICTURE_OF_MANY = picture("spark-tab-50");
  private static final Path PICTURE_OF_HISTORY = picture("spark-history");

  private static final String TIME = "\\d{4}/\\d\\d/\\d\\d \\d\\d:\\d\\d:\\d\\d";
  private static final Pattern SAVED =
      Pattern.compile("Saved against fail-all: [1-9]\\d*\\.\\d executor-seconds: ");

  private static final Map<String, String> WEB_UI =
      Map.of("spark.ui.enabled", "true", "spark.ui.port", "0");

  private final StandaloneCluster cluster = Sessions.cluster();
  private final Browser browser = new Browser(cluster.work());

  @Test
  void a_job_is_seen_while_it_trains_after_a_kill_and_when_its_application_is_over()
      throws Exception {
    Path logs = cluster.work().folder("event-logs");
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE, settings(logs));
    String application = spark.sparkContext().applicationId();
    String live = spark.sparkContext().uiWebUrl().get();

    Deadline.within(
        LIMIT, "a training that is looked at", cluster, () -> trainAndLook(spark, live));
    RejoinRun fit =
        new RejoinRun(spark, Recipe.BINARY, WORKERS, 100)
            .setting("spark.rejoin.checkpoint.rounds", "5")
            // At the death three ranks have trained for a second and more, not to be done again.
            .fault(Fault.of(0).version(10, 0).notice().replace("notify", "delay:1s"))
            .fault(Fault.of(1).version(12, 100_000).kill());
    Outcome outcome = Deadline.within(LIMIT, "a fit", cluster, fit::train);
    assertNull(outcome.trouble());
    Deadline.within(LIMIT, "looking at the web UI", cluster, () -> look(live + "/rejoin/", fit));
    Sessions.free();

    Deadline.within(LIMIT, "looking at history", cluster, () -> history(application, logs, fit));
    Deadline.within(LIMIT, "history without us", cluster, () -> withoutUs(application, logs));
    assertTrue(posted(logs) < 200, "our events in the log: " + posted(logs));
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  void fifty_ranks_have_a_row_each_in_picture_and_table() throws Exception {
    Map<String, String> settings = new LinkedHashMap<>(WEB_UI);
    settings.put("spark.master", "local[" + MANY + ",4]");
    SparkSession spark = Sessions.of(Sessions.Shape.LOCAL, settings);
    RejoinSpark.Options options =
        new RejoinSpark.Options()
            .faultsForTests(Faults.parse("rank=17,version=3,seqno=0,do=throw"));
    Path noWait = Files.createFile(cluster.work().file("gate-of-many"));
    Double total =
        Deadline.within(
            LIMIT,
            "a gang of " + MANY,
            cluster,
            () -> train(spark, MANY, noWait.toString(), options));
    assertEquals(MANY * 8.0, total);
    String address = spark.sparkContext().uiWebUrl().get() + "/rejoin/";
    WebPage page = browser.read(address);
    List<List<String>> ranks = page.rows("rejoin-ranks");
    assertEquals(MANY, ranks.size(), ranks.toString());
    for (int rank = 0; rank < MANY; rank++) {
      assertEquals("" + rank, ranks.get(rank).get(0), ranks.toString());
      assertEquals(rank == 17 ? "2 times" : "once", ranks.get(rank).get(9), ranks.toString());
      assertTrue(page.html().contains(">rank " + rank + "</text>"), "not drawn: rank " + rank);
    }
    browser.picture(address, 1300, 3500, PICTURE_OF_MANY);
    Sessions.free();
  }

  private static Path picture(String name) {
    return Path.of("build/" + name + "-" + VERSION + ".png");
  }

  private static Map<String, String> settings(Path logs) {
    Map<String, String> settings = new LinkedHashMap<>(WEB_UI);
    settings.put("spark.eventLog.enabled", "true");
    settings.put("spark.eventLog.dir", logs.toUri().toString());
    settings.put("spark.eventLog.compress", "false");
    return settings;
  }

  /**
   * Rank 1 is killed in version 3. In a later version all ranks wait until the page was read: it is
   * of a job that trains.
   */
  private Void trainAndLook(SparkSession spark, String live) throws Exception {
    String gate = cluster.work().file("gate").toString();
    Set<Integer> waiting = ConcurrentHashMap.newKeySet();
    CountDownLatch all = new CountDownLatch(1);
    RejoinSpark.Options options =
        new RejoinSpark.Options()
            .faultsForTests(Faults.parse("rank=1,version=3,seqno=0,do=kill"))
            .eventListener(
                event -> {
                  if (event.kind() == Kind.VERSION_ENTERED && event.number("version") == HELD) {
                    waiting.add(event.rank().getAsInt());
                  }
                  if (waiting.size() == WORKERS || event.kind() == Kind.JOB_FAILED) {
                    all.countDown();
                  }
                });
    FutureTask<Double> training = new FutureTask<>(() -> train(spark, WORKERS, gate, options));
    Thread thread = new Thread(training, "training");
    thread.start();
    try {
      assertTrue(all.await(LIMIT.toSeconds(), TimeUnit.SECONDS), "ranks that wait: " + waiting);
      WebPage page = browser.read(live + "/rejoin/");
      assertTrue(page.html().matches("(?s).*<h4>Job [0-9a-f]{8}: training</h4>.*"), page.html());
      List<List<String>> ranks = page.rows("rejoin-ranks");
      assertEquals(WORKERS, ranks.size());
      for (List<String> rank : ranks) {
        assertEquals("training", rank.get(1).replaceAll("\\W", ""), ranks.toString());
        assertEquals("" + HELD, rank.get(6), ranks.toString());
      }
      assertEquals("2 times", ranks.get(1).get(9), ranks.toString());
      assertEquals("2 of 3", ranks.get(1).get(10), ranks.toString());
    } finally {
      Files.createFile(Path.of(gate));
    }
    assertEquals(WORKERS * 8.0, training.get(LIMIT.toSeconds(), TimeUnit.SECONDS));
    return null;
  }

  private static double train(
      SparkSession spark, int workers, String gate, RejoinSpark.Options options) {
    return RejoinSpark.<Long, Double>train(
        spark.range(30).as(Encoders.LONG()), workers, (ranks, rows) -> sum(ranks, gate), options);
  }

  /** On executors: eight versions of one sum, with a wait before one of them. */
  private static double sum(Communicator ranks, String gate) throws Exception {
    double total = 0;
    Communicator.Loaded start = ranks.load();
    for (int step = start.version(); step < 8; step++) {
      long deadline = System.nanoTime() + LIMIT.toNanos();
      while (step == HELD && !Files.exists(Path.of(gate)) && System.nanoTime() < deadline) {
        Thread.sleep(20); // Between two looks; the deadline decides, not this.
      }
      double[] one = {1};
      ranks.allreduce(one, Reduction.SUM);
      total = one[0] * (step + 1);
      ranks.checkpoint(new byte[] {(byte) step});
    }
    return total;
  }

  /** The list of jobs, and the page of the fit with the kill. */
  private Void look(String tab, RejoinRun fit) throws Exception {
    WebPage list = browser.read(tab);
    List<List<String>> jobs = list.rows("rejoin-jobs");
    assertEquals(2, jobs.size(), jobs.toString());
    assertEquals("ended with a model", jobs.get(0).get(1), jobs.toString());
    assertEquals("1", jobs.get(0).get(6), jobs.toString());
    String address = tab + list.links("rejoin-jobs", jobs.get(0).get(0)).get(0);
    WebPage page = browser.read(address);
    seen(page, fit);
    List<String> errors = page.links("rejoin-recoveries", "stderr");
    // The dead executor's, and of the one that the rank was on afterwards.
    assertEquals(2, errors.size(), errors.toString());
    for (String log : errors) {
      String text = get(log);
      assertTrue(text.contains("stderr"), log + ": " + text);
    }
    browser.picture(address, 1300, 1410, PICTURE);
    return null;
  }

  /** What the page of the fit has to say, live and later. */
  private static void seen(WebPage page, RejoinRun fit) {
    TrainingEvent lost = first(fit, Kind.RANK_LOST);
    TrainingEvent back =
        fit.events().stream()
            .filter(one -> one.kind() == Kind.RANK_JOINED && one.number("incarnation") == 1)
            .findFirst()
            .orElseThrow();
    TrainingEvent again = first(fit, Kind.CAUGHT_UP);
    String summary = page.text("ul", "rejoin-summary");
    assertTrue(summary.contains("100 of 100 rounds (version 20)"), summary);
    assertTrue(summary.contains("[99] train-logloss:"), summary);
    assertTrue(SAVED.matcher(summary).find(), summary);
    assertTrue(summary.contains(first(fit, Kind.JOB_ENDED).text("digest")), summary);

    List<List<String>> ranks = page.rows("rejoin-ranks");
    assertEquals(WORKERS, ranks.size());
    for (List<String> rank : ranks) {
      assertEquals("finished", rank.get(1).replaceAll("\\W", ""), ranks.toString());
      assertEquals("stderr stdout", rank.get(4), ranks.toString());
      assertEquals(List.of("20", "100"), rank.subList(6, 8), ranks.toString());
      assertTrue(rank.get(8).matches(TIME), ranks.toString());
    }
    List<String> killed = ranks.get(1);
    assertEquals(back.text("executor") + " on 127.0.0.1", killed.get(3), ranks.toString());
    assertEquals(lost.text("executor") + " stderr stdout", killed.get(5), ranks.toString());

    List<List<String>> recoveries = page.rows("rejoin-recoveries");
    assertEquals(2, recoveries.size(), recoveries.toString());
    List<String> death = recoveries.get(0);
    assertEquals(List.of("1", "1"), death.subList(0, 2), recoveries.toString());
    assertEquals(
        lost.text("executor") + " on 127.0.0.1 stderr stdout", death.get(3), recoveries.toString());
    for (String part : death.subList(4, 10)) {
      assertTrue(part.matches("[0-9.]+ (ms|s)"), recoveries.toString());
    }
    assertTrue(
        death.get(10).startsWith(again.text("rounds_again") + " round"), recoveries.toString());
    assertEquals(lost.text("reason"), death.get(12), recoveries.toString());
    // A picture with a row for each rank, the death among them.
    assertTrue(page.html().contains("rank 1: lost for "), "no death in the timeline");
    budgets(page);
  }

  /** Of numbers that differ from run to run only that they are some. */
  private static void budgets(WebPage page) {
    String some = "[1-9][0-9]*\\.[0-9] [KM]iB";
    List<List<String>> budgets = page.rows("rejoin-budgets");
    assertEquals(4, budgets.size(), budgets.toString());
    assertEquals(List.of("deaths of one rank", "1", "3", "spark.task.maxFailures"), budgets.get(0));
    assertEquals(
        List.of(
            "executors that may die at the same moment", "–", "1", "spark.rejoin.input.replicas"),
        budgets.get(1));
    String logs = budgets.get(2).get(1);
    assertTrue(logs.matches(some), budgets.toString());
    assertEquals(
        List.of(
            "logs in memory, most of one executor", logs, "256.0 MiB", "spark.rejoin.log.memory"),
        budgets.get(2));
    assertEquals(
        List.of("logs on disk, most of one executor", "0 B", "16.0 GiB", "spark.rejoin.log.disk"),
        budgets.get(3));
    List<List<String>> memory = page.rows("rejoin-memory");
    assertEquals(4, memory.size(), memory.toString());
    assertEquals(List.of("logs on disk", "0 B", "0 B"), memory.get(1));
    for (int row : new int[] {0, 2}) {
      assertTrue(memory.get(row).get(1).matches(some), memory.toString());
      assertTrue(memory.get(row).get(2).matches(some), memory.toString());
    }
    assertEquals(logs, memory.get(0).get(2), memory.toString());
    assertTrue(memory.get(3).get(1).matches(some), memory.toString());
    assertEquals("–", memory.get(3).get(2), memory.toString());
  }

  private Void history(String application, Path logs, RejoinRun fit) throws Exception {
    try (HistoryServer server =
        HistoryServer.of(cluster, "history", distribution(), logs, jars())) {
      String tab = server.of(application) + "/rejoin/";
      WebPage list = browser.read(tab);
      assertEquals(2, list.rows("rejoin-jobs").size());
      String job = list.rows("rejoin-jobs").get(0).get(0);
      String address = tab + list.links("rejoin-jobs", job).get(0);
      seen(browser.read(address), fit);
      browser.picture(address, 1300, 1410, PICTURE_OF_HISTORY);
      String unknown = get(tab + "?job=%3Cb%3Eno%3C%2Fb%3E");
      assertTrue(unknown.contains("No job ") && !unknown.contains("<b>no"), unknown);
    }
    return null;
  }

  /** A history server of somebody else's shows the application all the same. */
  private Void withoutUs(String application, Path logs) throws Exception {
    try (HistoryServer server =
        HistoryServer.of(cluster, "history-without", distribution(), logs, "")) {
      WebPage page = browser.read(server.of(application) + "/jobs/");
      assertTrue(page.html().contains("Completed Jobs"), page.html());
      assertFalse(page.html().contains("/rejoin/"), page.html());
    }
    return null;
  }

  private static TrainingEvent first(RejoinRun fit, Kind kind) {
    return fit.events().stream().filter(one -> one.kind() == kind).findFirst().orElseThrow();
  }

  private static String get(String address) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(address)).timeout(LIMIT).build();
    HttpResponse<String> answer =
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    assertEquals(200, answer.statusCode(), address);
    return answer.body();
  }

  private static Path distribution() {
    return Path.of("build/spark-" + VERSION);
  }

  private static String jars() {
    return Stream.of(Communicator.class, RejoinEstimator.class)
        .map(type -> type.getProtectionDomain().getCodeSource().getLocation().getPath())
        .collect(Collectors.joining(File.pathSeparator));
  }

  /** How many of our events Spark's event log has. */
  private static long posted(Path logs) throws Exception {
    try (Stream<Path> files = Files.walk(logs)) {
      long count = 0;
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        try (Stream<String> lines = Files.lines(file)) {
          count += lines.filter(line -> line.contains("io.rejoin.spark.ui.PostedEvent")).count();
        }
      }
      return count;
    }
  }
}
