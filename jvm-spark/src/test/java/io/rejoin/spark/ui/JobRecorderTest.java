package io.rejoin.spark.ui;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.util.kvstore.KVStoreSerializer;
import org.junit.jupiter.api.Test;

class JobRecorderTest {
  private final TabJobs live = new TabJobs();
  private final List<TrainingEvent> log = new ArrayList<>();
  private final JobId job = JobId.random();
  private final JobRecorder recorder = new JobRecorder(job, JobEvents.facts(3), live, log::add);
  private final JobEvents events = new JobEvents(recorder::accept, System.nanoTime());

  private String page(TabJobs jobs) {
    return jobs.html(job.toString(), at -> "at " + at, executor -> Map.of());
  }

  /** What the history server makes of the log. */
  private TabJobs later() throws Exception {
    TabJobs later = new TabJobs();
    KVStoreSerializer store = new KVStoreSerializer();
    long number = 0;
    for (TrainingEvent each : log) {
      // As it is in a store on disk.
      byte[] bytes = store.serialize(PostedEvent.of(number++, job.toString(), each));
      PostedEvent read = store.deserialize(bytes, PostedEvent.class);
      later.accept(read.job(), read.event());
    }
    return later;
  }

  /** The curve has fewer points there. */
  private static String withoutCurve(String page) {
    return page.replaceAll("<polyline[^>]*>", "");
  }

  @Test
  void the_history_server_shows_what_the_live_page_did() throws Exception {
    events.begun(3);
    for (int version = 2; version < 200; version++) {
      for (int rank = 0; rank < 3; rank++) {
        events.entered(2_000 + 50L * version, rank, version);
      }
      events.usage(2_000 + 50L * version, "" + version % 3, version * 1_000);
    }
    events.lost(13_000, 1, "1", 400, 1);
    assertEquals(withoutCurve(page(live)), withoutCurve(page(later())));
    events.joined(15_000, 1, 1, "4").restored(15_100, 1).entered(15_900, 1, 199);
    assertEquals(withoutCurve(page(live)), withoutCurve(page(later())));
    events.caughtUp(16_000, 1, 4).entered(17_000, 1, 200).entered(17_000, 0, 200);
    events.entered(17_000, 2, 200).ended(18_000, 3);
    recorder.close();
    assertEquals(withoutCurve(page(live)), withoutCurve(page(later())));
    assertTrue(page(live).contains("ended with a model"), page(live));
  }

  @Test
  void ten_hours_of_training_write_hundreds_of_events_and_not_hundreds_of_thousands() {
    events.begun(3);
    for (int second = 3; second < 36_000; second++) {
      for (int rank = 0; rank < 3; rank++) {
        events.entered(1_000L * second, rank, second);
      }
      events.usage(1_000L * second, "0", 10);
    }
    assertTrue(log.size() > 100 && log.size() < 1_000, "events: " + log.size());
  }

  @Test
  void what_programs_print_and_long_errors_are_not_written_in_full() {
    events.begun(3);
    events.event(3_000, "Printed", "rank", "1", "text", "hello");
    events.event(3_000, "JobFailed", "code", "IO", "message", "x".repeat(100_000));
    assertTrue(log.stream().noneMatch(event -> event.name().equals("Printed")), "" + log);
    String message = log.get(log.size() - 1).text("message");
    assertTrue(message.length() > 1_000 && message.length() < 5_000, message);
  }

  @Test
  void a_job_whose_fit_was_interrupted_is_over() throws Exception {
    events.begun(3);
    recorder.close();
    assertTrue(page(live).contains("failed"), page(live));
    assertTrue(page(later()).contains("its fit ended before the job did"));
  }

  @Test
  void a_log_that_fails_and_events_that_make_no_sense_end_no_training() {
    JobRecorder broken =
        new JobRecorder(
            job,
            JobEvents.facts(3),
            live,
            event -> {
              throw new IllegalStateException("no space");
            });
    new JobEvents(broken::accept, System.nanoTime()).begun(3);
    broken.close();
    events.event(1, "RankLost");
    events.event(1, "VersionEntered", "rank", "none");
    recorder.close();
  }
}
