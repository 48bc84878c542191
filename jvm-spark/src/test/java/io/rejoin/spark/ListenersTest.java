package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.JobId;
import io.rejoin.Reduction;
import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class ListenersTest {
  private static final String SETTING = "spark.rejoin.listeners";

  /** What listeners of a class have had, by job. */
  private static final ConcurrentHashMap<JobId, List<Kind>> HAD = new ConcurrentHashMap<>();

  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,4]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  @AfterEach
  void unset() {
    session.conf().unset(SETTING);
  }

  /** A user's. */
  public static final class Collecting implements RejoinListener {
    @Override
    public void onEvent(JobId job, TrainingEvent event) {
      HAD.computeIfAbsent(job, id -> Collections.synchronizedList(new ArrayList<>()))
          .add(event.kind());
    }
  }

  /** Lacks what it needs. */
  public static final class Throwing implements RejoinListener {
    @Override
    public void onEvent(JobId job, TrainingEvent event) {
      throw new NoClassDefFoundError("a client of some alert system");
    }
  }

  /** Can't be made. */
  public static final class Unmade implements RejoinListener {
    /** Throws. */
    public Unmade() {
      throw new IllegalStateException("no address to alert is set");
    }

    @Override
    public void onEvent(JobId job, TrainingEvent event) {}
  }

  /** Has no constructor without parameters. */
  public static final class Demanding implements RejoinListener {
    /** For an address. */
    public Demanding(String address) {
      assertTrue(address.isEmpty());
    }

    @Override
    public void onEvent(JobId job, TrainingEvent event) {}
  }

  private static double train() {
    return RejoinSpark.train(
        session.createDataset(List.of(1, 2, 3, 4), Encoders.INT()),
        2,
        (ranks, rows) -> {
          double[] sum = {0};
          rows.forEach(row -> sum[0] += row);
          ranks.load();
          ranks.allreduce(sum, Reduction.SUM);
          return sum[0];
        });
  }

  @Test
  void a_class_by_the_setting_gets_each_fits_events_though_another_one_throws() {
    session.conf().set(SETTING, name(Throwing.class) + " , " + name(Collecting.class));
    assertEquals(10, train());
    assertEquals(10, train());
    assertEquals(2, HAD.size(), "jobs: " + HAD);
    for (List<Kind> of : HAD.values()) {
      assertEquals(Kind.JOB_ENDED, of.get(of.size() - 1), "of one job: " + of);
      assertEquals(2, Collections.frequency(of, Kind.RANK_JOINED), "of one job: " + of);
    }
  }

  @Test
  void a_class_of_which_no_listener_can_be_made_is_refused_by_name_before_any_work() {
    refuses("my.Alerts", "ClassNotFoundException");
    refuses(String.class.getName(), "ClassCastException");
    refuses(name(Demanding.class), "NoSuchMethodException");
    refuses(name(Unmade.class), "no address to alert is set");
    refuses(name(Collecting.class) + ",my.Alerts", "my.Alerts");
  }

  private static String name(Class<?> listener) {
    return listener.getName();
  }

  private static void refuses(String names, String seen) {
    session.conf().set(SETTING, names);
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (session.sparkContext().statusTracker().getActiveJobIds().length > 0) {
      // Spark hears of the end of an earlier test's job by its bus.
      assertTrue(System.nanoTime() < deadline, "a job of an earlier test goes on");
      Thread.onSpinWait();
    }
    RejoinException failure = assertThrows(RejoinException.class, ListenersTest::train);
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    for (String part : new String[] {SETTING, names.replaceAll(".*,", ""), seen, "expected a"}) {
      assertTrue(failure.text().contains(part), failure.text());
    }
    assertEquals(0, session.sparkContext().statusTracker().getActiveJobIds().length);
  }
}
