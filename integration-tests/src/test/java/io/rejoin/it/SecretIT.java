package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent.Kind;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.Stream;
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
  void stands_in_no_file_page_argument_or_environment_of_the_cluster() throws Exception {
    Path eventLog = Sessions.cluster().work().folder("events");
    SparkSession spark =
        Sessions.of(
            Sessions.Shape.SINGLE,
            Map.of(
                "spark.ui.enabled", "true",
                "spark.ui.port", "0",
                "spark.eventLog.enabled", "true",
                "spark.eventLog.compress", "false",
                "spark.eventLog.dir", eventLog.toUri().toString()));
    AtomicReference<Looks> looks = new AtomicReference<>();
    AtomicReference<Throwable> trouble = new AtomicReference<>();
    List<String> found = new ArrayList<>();
    RejoinRun run =
        new RejoinRun(spark, Recipe.BINARY, 3, 12)
            .setting("spark.rejoin.checkpoint.rounds", "1")
            .setting("spark.rejoin.log.level", "trace")
            .fault(Fault.of(1).version(8, 20_000).kill());
    run.listen(
        event -> {
          // The kill is later, so the job still runs while everything is searched.
          if (event.kind() == Kind.VERSION_ENTERED
              && event.number("round") >= 2
              && looks.get() == null) {
            try {
              looks.set(Looks.of(secret(spark.sparkContext())));
              found.addAll(search(spark, looks.get()));
            } catch (ReflectiveOperationException | IOException | InterruptedException e) {
              trouble.set(e);
            }
          }
        });
    Outcome outcome = Deadline.within(LIMIT, "a secret job", Sessions.cluster(), run::train);
    assertEquals(64, outcome.digest().length());
    if (trouble.get() != null) {
      throw new AssertionError("the search failed", trouble.get());
    }
    assertTrue(looks.get() != null, "nothing was searched");
    found.addAll(search(spark, looks.get()));
    assertEquals(List.of(), found);
    // The search is worth something: it finds what is there.
    Path planted = Sessions.cluster().work().file("planted");
    Files.write(planted, looks.get().all().get(2));
    assertEquals(List.of(planted.toString()), search(spark, looks.get()));
    Files.delete(planted);
    assertTrue(
        files(eventLog).stream().anyMatch(file -> contains(file, "SparkListenerJobStart")),
        "there is no event log to search");
  }

  /** What a secret may look like. */
  private record Looks(List<byte[]> all) {
    static Looks of(byte[] secret) {
      String hex = HexFormat.of().formatHex(secret);
      List<byte[]> all = new ArrayList<>();
      all.add(secret);
      List.of(
              hex,
              hex.toUpperCase(Locale.ROOT),
              Base64.getEncoder().withoutPadding().encodeToString(secret),
              Base64.getUrlEncoder().withoutPadding().encodeToString(secret))
          .forEach(text -> all.add(text.getBytes(StandardCharsets.US_ASCII)));
      return new Looks(all);
    }

    boolean in(byte[] text) {
      String searched = new String(text, StandardCharsets.ISO_8859_1);
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
    List<String> found = new ArrayList<>();
    List<Path> files = files(Sessions.cluster().work().root());
    assertFalse(files.isEmpty());
    for (Path file : files) {
      if (looks.in(bytes(file))) {
        found.add(file.toString());
      }
    }
    for (Processes.Found process : Processes.marked(Sessions.cluster().mark())) {
      for (String name : new String[] {"cmdline", "environ"}) {
        if (looks.in(bytes(Path.of("/proc", Long.toString(process.pid()), name)))) {
          found.add(name + " of " + process.command());
        }
      }
    }
    for (String page : pages(spark)) {
      HttpResponse<byte[]> answer =
          HttpClient.newHttpClient()
              .send(
                  HttpRequest.newBuilder(URI.create(page)).timeout(Duration.ofSeconds(20)).build(),
                  HttpResponse.BodyHandlers.ofByteArray());
      assertEquals(200, answer.statusCode(), page);
      if (looks.in(answer.body())) {
        found.add(page);
      }
    }
    return found;
  }

  private static List<String> pages(SparkSession spark) {
    String root = spark.sparkContext().uiWebUrl().get();
    String api = root + "/api/v1/applications/" + spark.sparkContext().applicationId();
    return Stream.of(
            root + "/environment/",
            root + "/jobs/",
            root + "/stages/",
            root + "/storage/",
            api + "/environment",
            api + "/jobs",
            api + "/stages?details=true",
            api + "/allexecutors",
            api + "/storage/rdd")
        .collect(Collectors.toList());
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
