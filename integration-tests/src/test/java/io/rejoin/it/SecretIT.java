package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent.Kind;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import java.util.zip.ZipInputStream;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.ActiveJob;
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
    AtomicReference<Looks> looks = new AtomicReference<>();
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
              looks.set(Looks.of(secret(spark.sparkContext())));
              found.addAll(search(spark, looks.get()));
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
      assertTrue(looks.get() != null, "nothing was searched");
      logs.with("").stream().filter(looks.get()::in).forEach(found::add);
      assertFalse(logs.with("").isEmpty(), "the driver has logged nothing");
    }
    found.addAll(search(spark, looks.get()));
    try (HistoryServer history = HistoryServer.of(cluster, eventLog)) {
      String application = spark.sparkContext().applicationId();
      String root = history.address();
      String logs = root + "/api/v1/applications/" + application + "/logs";
      found.addAll(
          searchPages(
              looks.get(),
              Stream.concat(
                  Stream.of(root + "/", history.of(application) + "/jobs/", logs),
                  answers(root, application))));
      byte[] archive = WebPages.from(List.of(logs)).get(logs);
      assertTrue(
          new String(unzipped(archive), StandardCharsets.ISO_8859_1)
              .contains("SparkListenerJobStart"),
          "there is no event log in what is handed out");
    }
    assertEquals(List.of(), found);
    // The search is worth something: it finds what is there.
    Path planted = cluster.work().file("planted");
    Files.write(planted, looks.get().all().get(2));
    assertEquals(List.of(planted.toString()), searchFiles(looks.get()));
    Files.delete(planted);
    assertTrue(
        files(eventLog).stream().anyMatch(file -> contains(file, "SparkListenerJobStart")),
        "there is no event log to search");
    assertTrue(
        files(cluster.work().folder("rejoin-events")).stream()
            .anyMatch(file -> contains(file, "RankLost")),
        "there is no event log of Rejoin's to search");
    assertTrue(
        files(cluster.work().folder("executors")).stream()
            .anyMatch(file -> contains(file, " TRACE rejoin: ")),
        "executors have logged nothing at trace");
  }

  /** What a secret may look like. */
  private record Looks(List<byte[]> all) {
    static Looks of(byte[] secret) {
      String hex = HexFormat.of().formatHex(secret);
      List<byte[]> all = new ArrayList<>();
      all.add(secret);
      // As Java and Rust print arrays of bytes.
      String signed = Arrays.toString(secret);
      String unsigned =
          IntStream.range(0, secret.length)
              .mapToObj(i -> Integer.toString(secret[i] & 0xff))
              .collect(Collectors.joining(", "));
      List.of(
              signed.substring(1, signed.length() - 1),
              unsigned,
              hex,
              hex.toUpperCase(Locale.ROOT),
              Base64.getEncoder().withoutPadding().encodeToString(secret),
              Base64.getUrlEncoder().withoutPadding().encodeToString(secret))
          .forEach(text -> all.add(text.getBytes(StandardCharsets.US_ASCII)));
      return new Looks(all);
    }

    boolean in(byte[] text) {
      return in(new String(text, StandardCharsets.ISO_8859_1));
    }

    boolean in(String searched) {
      return all.stream()
          .anyMatch(one -> searched.contains(new String(one, StandardCharsets.ISO_8859_1)));
    }
  }

  /** The secret of the gang that runs now, out of the driver's own memory. */
  private static byte[] secret(SparkContext context) throws ReflectiveOperationException {
    scala.collection.Iterator<ActiveJob> jobs = context.dagScheduler().activeJobs().iterator();
    while (jobs.hasNext()) {
      RDD<?> rdd = jobs.next().finalStage().rdd();
      if (rdd.getClass().getName().equals("io.rejoin.spark.GangRdd")) {
        Object secret = field(field(rdd, "gang"), "secret");
        Method bytes = secret.getClass().getDeclaredMethod("bytes");
        bytes.setAccessible(true);
        return (byte[]) bytes.invoke(secret);
      }
    }
    throw new IllegalStateException("no gang is running");
  }

  private static Object field(Object owner, String name) throws ReflectiveOperationException {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }

  /** Where the secret was found. */
  private static List<String> search(SparkSession spark, Looks looks)
      throws IOException, InterruptedException {
    List<String> found = searchFiles(looks);
    List<Processes.Found> processes = new ArrayList<>(Processes.marked(Sessions.cluster().mark()));
    processes.add(new Processes.Found(ProcessHandle.current().pid(), List.of("the driver")));
    for (Processes.Found process : processes) {
      for (String name : new String[] {"cmdline", "environ"}) {
        if (looks.in(bytes(Path.of("/proc", Long.toString(process.pid()), name)))) {
          found.add(name + " of " + process.command());
        }
      }
    }
    String root = spark.sparkContext().uiWebUrl().get();
    Stream<String> more =
        Stream.of("/", "/metrics/json/", "/metrics/prometheus/", "/executors/")
            .map(path -> root + path);
    String application = spark.sparkContext().applicationId();
    found.addAll(searchPages(looks, Stream.concat(more, answers(root, application))));
    for (String daemon : List.of("Master", "Worker")) {
      String address = webUi(daemon);
      found.addAll(having(looks, WebPages.from(List.of(address + "/", address + "/json/"))));
    }
    settings(spark)
        .filter(setting -> looks.in(setting.toString()))
        .forEach(setting -> found.add("setting " + setting));
    return found;
  }

  /** The files of the cluster that have it: of all its processes, but for the driver's log. */
  private static List<String> searchFiles(Looks looks) throws IOException {
    List<Path> files = files(Sessions.cluster().work().root());
    assertFalse(files.isEmpty());
    return files.stream()
        .filter(file -> looks.in(bytes(file)))
        .map(Path::toString)
        .collect(Collectors.toCollection(ArrayList::new));
  }

  /** The pages among these, and those that they lead to, that have it. */
  private static List<String> searchPages(Looks looks, Stream<String> addresses)
      throws IOException, InterruptedException {
    Map<String, byte[]> pages = WebPages.from(addresses.collect(Collectors.toList()));
    assertTrue(pages.size() > 20, "only " + pages.keySet());
    assertTrue(
        pages.keySet().stream().anyMatch(page -> page.contains("/rejoin/")),
        "no page of ours among " + pages.keySet());
    return having(looks, pages);
  }

  private static List<String> having(Looks looks, Map<String, byte[]> pages) throws IOException {
    List<String> found = new ArrayList<>();
    for (Map.Entry<String, byte[]> page : pages.entrySet()) {
      if (looks.in(page.getValue()) || looks.in(unzipped(page.getValue()))) {
        found.add(page.getKey());
      }
    }
    return found;
  }

  /** All that is in an archive, as event logs are handed out; nothing, if it is none. */
  private static byte[] unzipped(byte[] answer) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    try (ZipInputStream archive = new ZipInputStream(new ByteArrayInputStream(answer))) {
      while (archive.getNextEntry() != null) {
        archive.transferTo(all);
      }
    }
    return all.toByteArray();
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

  private static List<Path> files(Path root) throws IOException {
    try (Stream<Path> all = Files.walk(root)) {
      return all.filter(Files::isRegularFile).collect(Collectors.toList());
    }
  }

  private static boolean contains(Path file, String text) {
    return new String(bytes(file), StandardCharsets.ISO_8859_1).contains(text);
  }

  /** Nothing, if it is gone: Spark deletes what it has no more use for. */
  private static byte[] bytes(Path file) {
    try {
      return Files.readAllBytes(file);
    } catch (IOException gone) {
      return new byte[0];
    }
  }
}
