package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent.Kind;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * The job's secret travels in the task closure and stands nowhere that another user could read: not
 * in files, pages, arguments or environments.
 */
@DisplayName("the secret of a job")
class SecretIT {
  private static final Duration LIMIT = Duration.ofSeconds(300);

  @Test
  void stands_in_no_file_setting_page_log_argument_or_environment_of_the_cluster()
      throws Exception {
    StandaloneCluster cluster = Sessions.cluster();
    Path eventLog = cluster.work().folder("events");
    SparkSession spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.ui.enabled",
                "true",
                "spark.ui.port",
                "0",
                "spark.eventLog.enabled",
                "true",
                "spark.eventLog.compress",
                "false",
                "spark.eventLog.dir",
                eventLog.toUri().toString(),
                "spark.metrics.conf.*.sink.prometheusServlet.class",
                "org.apache.spark.metrics.sink.PrometheusServlet",
                "spark.metrics.conf.*.sink.prometheusServlet.path",
                "/metrics/prometheus",
                Sessions.EXECUTOR_OPTIONS,
                Sessions.executorOptions() + " -Drejoin.it.ours=trace"));
    AtomicReference<SecretSearch> searched = new AtomicReference<>();
    AtomicReference<Throwable> trouble = new AtomicReference<>();
    List<String> found = new ArrayList<>();
    RejoinRun run =
        new RejoinRun(spark, Recipe.BINARY, 3, 12)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            .setting("spark.rejoin.log.level", "trace")
            .setting("spark.rejoin.events", cluster.work().folder("rejoin-events").toString())
            // The rank is frozen while everything is searched, and killed then.
            .setting("spark.rejoin.lost.after", "20min")
            .fault(Fault.of(1).version(8, 20_000).stop());
    run.listen(
        event -> {
          if (event.kind() == Kind.FAULT_FIRED) {
            try {
              searched.set(SecretSearch.of(GangSecret.of(spark.sparkContext())));
              found.addAll(search(spark, searched.get()));
            } catch (ReflectiveOperationException
                | IOException
                | InterruptedException
                | RuntimeException e) {
              trouble.set(e);
            }
          }
        });
    new FaultCase.ByEvent(run).when(event -> event.kind() == Kind.FAULT_FIRED, 1, "KILL");
    try (Logs logs = Logs.collectTrace()) {
      Outcome outcome = Deadline.within(LIMIT, "a secret job", cluster, run::train);
      assertEquals(64, outcome.digest().length());
      if (trouble.get() != null) {
        throw new AssertionError("the search failed", trouble.get());
      }
      assertTrue(searched.get() != null, "nothing was searched");
      logs.with("").stream().filter(searched.get()::in).forEach(found::add);
      assertFalse(logs.with("").isEmpty(), "the driver has logged nothing");
    }
    found.addAll(search(spark, searched.get()));
    try (HistoryServer history = HistoryServer.of(cluster, eventLog)) {
      String application = spark.sparkContext().applicationId();
      String root = history.address();
      String logs = root + "/api/v1/applications/" + application + "/logs";
      found.addAll(
          searchPages(
              searched.get(),
              Stream.concat(
                  Stream.of(root + "/", history.of(application) + "/jobs/", logs),
                  answers(root, application))));
      byte[] archive = WebPages.from(List.of(logs)).get(logs);
      assertTrue(
          new String(SecretSearch.unzipped(archive), StandardCharsets.ISO_8859_1)
              .contains("SparkListenerJobStart"),
          "there is no event log in what is handed out");
    }
    assertEquals(List.of(), found);
    searched.get().assertFinds(cluster.work());
    assertTrue(
        SecretSearch.isText(eventLog, "SparkListenerJobStart"), "there is no event log to search");
    assertTrue(
        SecretSearch.isText(cluster.work().folder("rejoin-events"), "RankLost"),
        "there is no event log of Rejoin's to search");
    assertTrue(
        SecretSearch.isText(cluster.work().folder("executors"), " TRACE rejoin: "),
        "executors have logged nothing at trace");
  }

  /** Where the secret was found. */
  private static List<String> search(SparkSession spark, SecretSearch search)
      throws IOException, InterruptedException {
    // Of all the cluster's processes, but for the driver's log.
    List<String> found = search.having(Sessions.cluster().work().root());
    List<Long> processes = new ArrayList<>(List.of(ProcessHandle.current().pid()));
    Processes.marked(Sessions.cluster().mark()).forEach(process -> processes.add(process.pid()));
    found.addAll(search.processes(processes));
    String root = spark.sparkContext().uiWebUrl().get();
    Stream<String> more =
        Stream.of("/", "/metrics/json/", "/metrics/prometheus/", "/executors/")
            .map(path -> root + path);
    String application = spark.sparkContext().applicationId();
    found.addAll(searchPages(search, Stream.concat(more, answers(root, application))));
    for (String daemon : List.of("Master", "Worker")) {
      String address = webUi(daemon);
      found.addAll(search.pages(WebPages.from(List.of(address + "/", address + "/json/"))));
    }
    settings(spark)
        .filter(setting -> search.in(setting.toString()))
        .forEach(setting -> found.add("setting " + setting));
    return found;
  }

  /** The pages among these, and those that they lead to, that have it. */
  private static List<String> searchPages(SecretSearch search, Stream<String> addresses)
      throws IOException, InterruptedException {
    Map<String, byte[]> pages = WebPages.from(addresses.collect(Collectors.toList()));
    assertTrue(pages.size() > 20, "only " + pages.keySet());
    assertTrue(
        pages.keySet().stream().anyMatch(page -> page.contains("/rejoin/")),
        "no page of ours among " + pages.keySet());
    return search.pages(pages);
  }

  /** Where the cluster's master or worker has its pages. */
  private static String webUi(String daemon) throws IOException {
    Path log = Sessions.cluster().work().file(daemon.toLowerCase(Locale.ROOT) + ".log");
    Matcher address =
        Pattern.compile("Bound " + daemon + "WebUI to .* started at (http://\\S+)")
            .matcher(Files.readString(log));
    assertTrue(address.find(), () -> "no address of its pages in " + log);
    return address.group(1);
  }

  /** What Spark says of an application by REST. */
  private static Stream<String> answers(String root, String application) {
    return Stream.of(
            "",
            "/environment",
            "/jobs",
            "/stages?details=true&withSummaries=true",
            "/executors",
            "/allexecutors",
            "/storage/rdd",
            "/sql?details=true&planDescription=true&length=1000")
        .map(path -> root + "/api/v1/applications/" + application + path);
  }

  /** The application's, the session's and Hadoop's. */
  private static Stream<Object> settings(SparkSession spark) {
    Stream<Object> ofSpark = Arrays.stream(spark.sparkContext().getConf().getAll());
    Stream<Object> ofSession = Stream.of(spark.conf().getAll().toString());
    Stream<Object> ofHadoop =
        StreamSupport.stream(spark.sparkContext().hadoopConfiguration().spliterator(), false)
            .map(Object.class::cast);
    return Stream.of(ofSpark, ofSession, ofHadoop).flatMap(some -> some);
  }
}
