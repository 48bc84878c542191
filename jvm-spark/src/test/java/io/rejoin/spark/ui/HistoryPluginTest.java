package io.rejoin.spark.ui;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.status.AppHistoryServerPlugin;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.util.kvstore.InMemoryStore;
import org.junit.jupiter.api.Test;

class HistoryPluginTest {
  private final ElementTrackingStore store =
      new ElementTrackingStore(new InMemoryStore(), new SparkConf(false));
  private final AppHistoryServerPlugin plugin = new HistoryPlugin();
  private final SparkListener listener = plugin.createListeners(new SparkConf(false), store).head();
  private long number;

  private void post(String job, String name) {
    TrainingEvent event = TrainingEvent.recorded(name, Map.of("ranks", "2"), 0);
    listener.onOtherEvent(PostedEvent.of(number++, job, event));
  }

  @Test
  void of_an_application_with_many_jobs_the_newest_are_kept() throws Exception {
    for (int job = 0; job < TabJobs.MOST + 20; job++) {
      post("job " + job, JobView.BEGAN);
      post("job " + job, "HookAgreed");
    }
    assertEquals(2 * TabJobs.MOST, store.count(PostedEvent.class));
    // A late event of one that is forgotten.
    post("job 0", "JobEnded");
    assertEquals(2 * TabJobs.MOST, store.count(PostedEvent.class));
    assertEquals(40, store.view(PostedEvent.class).iterator().next().number());
  }

  @Test
  void a_job_whose_beginning_is_missing_is_not_kept() throws Exception {
    post("job", "JobEnded");
    assertEquals(0, store.count(PostedEvent.class));
  }

  @Test
  void an_event_of_another_version_is_passed_over() {
    post("job", JobView.BEGAN);
    post("job", "RankLost");
    listener.onOtherEvent(
        PostedEvent.of(
            number++, "job", TrainingEvent.recorded(JobView.PROGRESS, Map.of("NEW", "1"), 0)));
    post("job", "JobEnded");
    String page = HistoryPlugin.jobs(store).html("job", at -> "", executor -> Map.of());
    assertTrue(page.contains("Job job: ended with a model"), page);
  }
}
