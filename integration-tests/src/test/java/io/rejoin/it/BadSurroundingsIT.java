package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.AgentSettings;
import io.rejoin.JobId;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import io.rejoin.Secret;
import io.rejoin.TrainingEvent.Kind;
import io.rejoin.settings.CommonSettings;
import io.rejoin.xgboost.XgboostAgent;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A cluster, a network or a disk that doesn't allow the training: a clear error soon, or no harm.
 */
@DisplayName("bad surroundings are said at the start, or do no harm")
class BadSurroundingsIT {
  private static final Duration LIMIT = Duration.ofSeconds(60);
  private static final InetAddress LOOPBACK = InetAddress.getLoopbackAddress();

  private static SparkSession local() {
    return Sessions.of(Sessions.Shape.LOCAL);
  }

  private static RejoinRun run(SparkSession spark) {
    return Refusal.run(spark, Recipe.BINARY);
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, LOOPBACK)) {
      return socket.getLocalPort();
    }
  }

  @Test
  void fewer_slots_than_workers_in_local_mode_are_said_with_both_numbers() throws Exception {
    Refusal.of(new RejoinRun(local(), Recipe.BINARY, 5, 4))
        .says(Code.BAD_ARGUMENT, "5 workers", "4 slots", "numWorkers", "local[5,4]");
    Refusal.nextFitWorks(local());
  }

  @Test
  void fewer_slots_than_workers_on_a_cluster_are_said_with_both_numbers_after_a_set_time()
      throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.SINGLE);
    Refusal refusal =
        Refusal.of(
            new RejoinRun(spark, Recipe.BINARY, 7, 4).setting("spark.rejoin.slots.timeout", "2s"));
    refusal.says(
        Code.BAD_ARGUMENT, "7 workers", "4 slots", "spark.rejoin.slots.timeout", "numWorkers");
    assertTrue(refusal.seconds() < 30, "took " + refusal.seconds() + " s");
    Refusal.nextFitWorks(spark);
  }

  @Test
  void a_local_master_without_retries_trains_and_warns_that_no_death_is_survived()
      throws Exception {
    SparkSession spark = Sessions.of(Sessions.Shape.LOCAL, Map.of("spark.master", "local[3]"));
    try (Logs logs = Logs.collect()) {
      Refusal.nextFitWorks(spark);
      assertEquals(1, logs.with("no death that counts can be survived").size());
      assertEquals(1, logs.with("use local[3,4]").size());
    }
  }

  @Test
  void speculation_is_refused() {
    SparkSession spark = Sessions.of(Sessions.Shape.LOCAL, Map.of("spark.speculation", "true"));
    Refusal.of(run(spark)).says(Code.BAD_ARGUMENT, "spark.speculation", "switch it off");
  }

  @Test
  void training_on_gpus_is_refused() throws Exception {
    for (String device : new String[] {"cuda", "gpu"}) {
      XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(local(), 3, 4);
      stock.setDevice(device);
      Refusal.of(run(local()).estimator(stock)).says(Code.BAD_ARGUMENT, "GPU", "cpu");
    }
    Refusal.nextFitWorks(local());
  }

  @Test
  void input_that_would_make_the_gang_a_barrier_stage_is_refused() throws Exception {
    SparkSession spark = local();
    org.apache.spark.sql.Dataset<Row> rows =
        Recipe.BINARY.data(spark, 3).select("label", "features").repartition(3).cache();
    org.apache.spark.api.java.JavaRDD<Row> barrier =
        rows.javaRDD()
            .rdd()
            .barrier()
            .<Row>mapPartitions(
                new SameRows(), false, scala.reflect.ClassTag$.MODULE$.apply(Row.class))
            .toJavaRDD();
    Refusal.of(run(spark).data(spark.createDataFrame(barrier, rows.schema())))
        .says(Code.BAD_ARGUMENT, "barrier");
    Refusal.nextFitWorks(spark);
  }

  @Test
  void a_range_of_ports_that_is_taken_ends_the_job_at_once_with_the_range_and_the_setting()
      throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, LOOPBACK)) {
      String range = taken.getLocalPort() + "-" + taken.getLocalPort();
      String tracker = "spark.rejoin.tracker.ports";
      Refusal.of(run(local()).setting(tracker, range))
          .says(Code.BAD_ARGUMENT, range, tracker, "wider");
      // Spark tries a task again before its driver has heard why it failed: once, not four times.
      String agent = "spark.rejoin.agent.ports";
      Refusal.withAtMost(3, run(local()).setting(agent, range))
          .says(Code.BAD_ARGUMENT, range, agent, "wider");
    }
    Refusal.nextFitWorks(local());
  }

  @Test
  void a_driver_that_hears_late_of_tasks_without_a_port_still_ends_the_job_with_the_setting()
      throws Exception {
    RunFacts slow =
        new RunFacts() {
          @Override
          protected void taskFailed(int stage, int again, int rank, int attempt, String reason) {
            // Spark's bus calls one listener after the other, and this one comes before the gang's.
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(700));
          }
        };
    try (ServerSocket taken = new ServerSocket(0, 1, LOOPBACK)) {
      String range = taken.getLocalPort() + "-" + taken.getLocalPort();
      String agent = "spark.rejoin.agent.ports";
      Refusal.withAtMost(3, run(local()).setting(agent, range), slow)
          .says(Code.BAD_ARGUMENT, range, agent, "wider");
    }
  }

  @Test
  void executors_with_jars_of_another_version_than_the_drivers_are_refused_by_their_names(
      @TempDir Path folder) throws Exception {
    Path version = folder.resolve("io/rejoin/version.txt");
    Files.createDirectories(version.getParent());
    Files.writeString(version, "9.9.9");
    String path = "spark.executor.extraClassPath";
    String usual = Sessions.cluster().configuration().get(path);
    SparkSession spark =
        Sessions.of(Sessions.Shape.SINGLE, Map.of(path, folder + File.pathSeparator + usual));
    // A task that Spark tries again before its driver has heard of the refusal is refused as well.
    Refusal refusal = Refusal.withAtMost(3, run(spark));
    refusal.says(
        Code.INCOMPATIBLE,
        "the driver has Rejoin's jars of version " + NativeLibrary.version(),
        "(executor ",
        "of version 9.9.9");
    assertTrue(refusal.seconds() < 60, "took " + refusal.seconds() + " s");
    Sessions.free();
  }

  @Test
  void strangers_on_the_ports_do_no_harm_and_are_told_of_once(@TempDir Path spill)
      throws Exception {
    int tracker = freePort();
    int agent = freePort();
    RejoinRun run =
        Calm.run(local(), Recipe.BINARY, 3, 12)
            .setting("spark.rejoin.tracker.ports", tracker + "-" + tracker)
            .setting("spark.rejoin.agent.ports", agent + "-" + agent);
    AtomicBoolean knocked = new AtomicBoolean();
    run.listen(
        event -> {
          if (event.kind() == Kind.VERSION_ENTERED
              && event.number("round") == 3
              && knocked.compareAndSet(false, true)) {
            for (int port : new int[] {tracker, agent}) {
              for (int again = 0; again < 5; again++) {
                knock(port, "GET / HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                knock(port, new byte[4096]);
                knock(port, new byte[0]);
              }
            }
            wrongSecret(tracker, spill);
          }
        });
    try (Logs logs = Logs.collect()) {
      String digest = Deadline.within(LIMIT, "strangers", Sessions.cluster(), run::train).digest();
      assertTrue(knocked.get(), "no stranger connected");
      // With as many rounds per checkpoint: up to XGBoost 3.2 they are part of the model.
      RejoinRun calm = Calm.run(local(), Recipe.BINARY, 3, 12);
      assertEquals(
          Deadline.within(LIMIT, "calm", Sessions.cluster(), calm::train).digest(), digest);
      // One by the tracker, one by the agent.
      assertEquals(2, logs.awaited("StrangerRefused", 2).size(), "reported once by each");
    }
  }

  private static void knock(int port, byte[] bytes) {
    try (Socket socket = new Socket(LOOPBACK, port)) {
      socket.setSoTimeout(10_000);
      socket.getOutputStream().write(bytes);
      if (bytes.length > 0) {
        socket.getInputStream().readAllBytes();
      }
    } catch (IOException hungUp) {
      // That is how a stranger is treated.
    }
  }

  /** An agent with another secret is turned away with an error that says what to look at. */
  private static void wrongSecret(int tracker, Path spill) {
    String address = LOOPBACK.getHostAddress() + ":" + tracker;
    RejoinException refused = joins(address, spill);
    assertEquals(Code.TRACKER_UNREACHABLE, refused.code(), refused.getMessage());
    assertTrue(refused.text().contains("another secret"), refused.text());
  }

  private static RejoinException joins(String tracker, Path spill) {
    AgentSettings settings =
        new AgentSettings(tracker)
            .place("elsewhere", LOOPBACK.getHostAddress(), "localhost")
            .spillDirectory(spill.toString())
            .with(CommonSettings.of(Map.of("tracker.timeout", "1500ms")));
    try (XgboostAgent agent = XgboostAgent.open(JobId.random(), Secret.random(), settings)) {
      return assertThrows(
          RejoinException.class, () -> agent.join(0, 0, 0, "terms", 10_000, Optional::empty));
    }
  }

  @Test
  void a_tracker_that_can_not_be_reached_is_named_with_how_long_it_was_tried(@TempDir Path spill)
      throws Exception {
    String address = LOOPBACK.getHostAddress() + ":" + freePort();
    RejoinException failure = joins(address, spill);
    assertEquals(Code.TRACKER_UNREACHABLE, failure.code());
    assertTrue(failure.text().contains(address), failure.text());
    assertTrue(failure.text().contains("for 1 s"), failure.text());
    assertTrue(failure.text().contains("Check that it is alive"), failure.text());
  }

  @Test
  void a_tracker_address_that_is_not_the_drivers_is_refused_by_name() throws Exception {
    XGBoostClassifier stock = (XGBoostClassifier) Recipe.BINARY.estimator(local(), 3, 4);
    stock.setRabitTrackerHostIp("192.0.2.1");
    Refusal.of(run(local()).estimator(stock)).says("192.0.2.1");
    Refusal.nextFitWorks(local());
  }

  @Test
  void logs_that_outgrow_their_budget_end_the_job_with_the_settings_to_raise() throws Exception {
    Refusal.of(
            new RejoinRun(local(), Recipe.BINARY, 3, 60)
                .setting("spark.rejoin.log.memory", "64k")
                .setting("spark.rejoin.log.disk", "64k")
                .setting("spark.rejoin.checkpoint.rounds", "60"))
        .says(Code.OUT_OF_SPACE, "spark.rejoin.log.memory", "spark.rejoin.log.disk", "65536");
    Refusal.nextFitWorks(local());
  }

  /** What a barrier stage computes here. */
  static final class SameRows
      extends scala.runtime.AbstractFunction1<
          scala.collection.Iterator<Row>, scala.collection.Iterator<Row>>
      implements java.io.Serializable {
    private static final long serialVersionUID = 1L;

    @Override
    public scala.collection.Iterator<Row> apply(scala.collection.Iterator<Row> rows) {
      return rows;
    }
  }
}
