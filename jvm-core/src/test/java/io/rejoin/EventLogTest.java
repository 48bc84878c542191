package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The event log of a job whose tracker a framework's driver has. */
class EventLogTest {
  /** Reached only when something is broken. */
  private static final Communicator.Limits LIMITS = new Communicator.Limits(30_000, 30_000, 30_000);

  @Test
  void a_picture_is_drawn_of_it(@TempDir Path folder) throws Exception {
    String drawn = timeline(logOf(folder, EventLogTest::awaitEnd));
    assertTrue(drawn.contains("rejoin: a test"), drawn);
    assertTrue(
        drawn.contains("1 ranks") && drawn.contains("all ranks have reached the end"), drawn);
  }

  @Test
  void it_has_the_end_also_where_the_driver_closes_the_tracker_before_it_has_heard_of_it(
      @TempDir Path folder) throws Exception {
    List<String> log = Files.readAllLines(logOf(folder, EventLogTest::awaitResult));
    String last = log.get(log.size() - 1);
    assertTrue(last.contains("\"Over\":{\"status\":0"), last);
  }

  /** Of a job of one rank, once the driver has waited for its end and has closed the tracker. */
  private static Path logOf(Path folder, Consumer<Tracker> wait) {
    Path events = folder.resolve("events");
    SettingValues values = CommonSettings.of(Map.of("events", events.toString()));
    JobId job = JobId.random();
    Secret secret = Secret.random();
    Tracker.Settings settings = new Tracker.Settings(1, "127.0.0.1").with(values).name("a test");
    try (Tracker tracker = Tracker.open(job, secret, settings)) {
      AgentSettings here =
          new AgentSettings(tracker.address()).with(values).place("e", "127.0.0.1", "localhost");
      try (Agent agent = Agent.open(job, secret, here);
          Communicator ranks = agent.join(0, 0, 0, "a test", LIMITS).orElseThrow()) {
        ranks.load();
        ranks.allreduce(new long[] {1}, Reduction.SUM);
        ranks.checkpoint(new byte[] {1});
        ranks.finish(new byte[] {1});
      }
      wait.accept(tracker);
    }
    return events.resolve(job + ".jsonl");
  }

  private static void awaitResult(Tracker tracker) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (true) {
      try {
        tracker.result();
        return;
      } catch (RejoinException notYet) {
        assertEquals(RejoinException.Code.BAD_STATE, notYet.code());
        assertTrue(System.nanoTime() < deadline, "the job did not end within 30 s");
        Thread.onSpinWait();
      }
    }
  }

  private static void awaitEnd(Tracker tracker) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (System.nanoTime() < deadline) {
      TrainingEvent event = tracker.poll(1000).orElse(null);
      if (event != null && event.kind() == TrainingEvent.Kind.JOB_ENDED) {
        return;
      }
    }
    throw new AssertionError("the job did not end within 30 s");
  }

  private static String timeline(Path log) throws Exception {
    Path picture = log.resolveSibling("picture.svg");
    Process drawing =
        new ProcessBuilder(
                System.getProperty("rejoin.test.launcher"),
                "timeline",
                log.toString(),
                "--output",
                picture.toString())
            .inheritIO()
            .start();
    assertTrue(drawing.waitFor(60, TimeUnit.SECONDS), "rejoin timeline ends");
    assertEquals(0, drawing.exitValue());
    return Files.readString(picture);
  }

  @Test
  void a_folder_that_can_not_be_is_refused_before_anything_starts() {
    SettingValues values = CommonSettings.of(Map.of("events", "/dev/null"));
    Tracker.Settings settings = new Tracker.Settings(1, "127.0.0.1").with(values);
    RejoinException refused =
        assertThrows(
            RejoinException.class, () -> Tracker.open(JobId.random(), Secret.random(), settings));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, refused.code());
    assertTrue(refused.text().contains("/dev/null/"), refused.text());
  }
}
