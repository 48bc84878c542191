package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Agent;
import io.rejoin.AgentSettings;
import io.rejoin.Communicator;
import io.rejoin.EventsForTests;
import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.cluster.ExecutorInfo;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import scala.Tuple4;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.collection.immutable.Map$;

/** What a gang's registry records of tasks of a real Spark. */
class SparkRegistryTest {
  private static final CountDownLatch FIRST_TRY_RUNS = new CountDownLatch(1);
  private static final Seq<Tuple4<Object, Object, Object, Seq<AccumulableInfo>>> NO_UPDATES =
      JavaConverters.asScalaBuffer(List.<Tuple4<Object, Object, Object, Seq<AccumulableInfo>>>of())
          .toSeq();
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,4]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static Surroundings surroundings() {
    return new Surroundings(session.sparkContext(), 2);
  }

  /** A job of one or two tasks, of which the first one fails twice and the second one once. */
  private static void failingJob(int tasks) {
    JavaSparkContext.fromSparkContext(session.sparkContext())
        .parallelize(List.of(0, 1), tasks)
        .foreachPartition(
            rows -> {
              TaskContext task = TaskContext.get();
              if (task.attemptNumber() < 2 - task.partitionId()) {
                throw new IllegalStateException("this try fails");
              }
            });
  }

  @Test
  void failures_are_counted_for_each_task_of_the_own_job_alone() {
    JobId job = JobId.random();
    try (Tracker tracker =
        Tracker.open(job, Secret.random(), new Tracker.Settings(2, "127.0.0.1"))) {
      SparkRegistry registry = new SparkRegistry(surroundings(), tracker, false);
      session.sparkContext().addSparkListener(registry);
      try {
        failingJob(2);
        registry.catchUp();
        assertEquals(0, registry.mostFailuresOfOneTask(), "another job's failures");

        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, job.toString());
        failingJob(2);
        registry.catchUp();
        assertEquals(2, registry.mostFailuresOfOneTask());
        assertTrue(registry.lastFailure().contains("this try fails"), registry.lastFailure());
      } finally {
        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, null);
        session.sparkContext().removeSparkListener(registry);
      }
    }
  }

  @Test
  void tasks_of_a_stage_behind_the_gangs_own_are_none_of_its() {
    JobId job = JobId.random();
    try (Tracker tracker =
        Tracker.open(job, Secret.random(), new Tracker.Settings(2, "127.0.0.1"))) {
      SparkRegistry registry = new SparkRegistry(surroundings(), tracker, false);
      session.sparkContext().addSparkListener(registry);
      session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, job.toString());
      try {
        // As when a page is lost, and with it the shuffle's files that it was made of.
        JavaSparkContext.fromSparkContext(session.sparkContext())
            .parallelize(List.of(0, 1), 2)
            .mapPartitions(
                rows -> {
                  if (TaskContext.get().attemptNumber() == 0) {
                    throw new IllegalStateException("this try fails");
                  }
                  return rows;
                })
            .repartition(2)
            .count();
        registry.catchUp();
        assertEquals(0, registry.mostFailuresOfOneTask());
      } finally {
        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, null);
        session.sparkContext().removeSparkListener(registry);
      }
    }
  }

  private static TrainingEvent joined(int task, int rank) {
    return EventsForTests.event(
        "RankJoined",
        "index",
        "" + task,
        "stage",
        "0",
        "task",
        "0",
        "rank",
        "" + rank,
        "executor",
        "e" + task);
  }

  @Test
  void in_another_world_a_task_is_another_rank() {
    try (Tracker tracker =
        Tracker.open(JobId.random(), Secret.random(), new Tracker.Settings(2, "127.0.0.1"))) {
      SparkRegistry registry = new SparkRegistry(surroundings(), tracker, false);
      registry.take(joined(0, 0));
      registry.take(joined(1, 1));
      registry.take(
          EventsForTests.event("Resized", "ranks", ",0", "world", "1", "reason", "no slot"));
      registry.take(joined(1, 0));
      assertEquals(0, registry.facts().rankOf(1, 0, 0));
    }
  }

  @Test
  void the_tracker_learns_which_try_of_a_task_has_ended() {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(1, "127.0.0.1"))) {
      AgentSettings settings = new AgentSettings(tracker.address());
      settings.place("one", "127.0.0.1", "localhost");
      SparkRegistry registry = new SparkRegistry(surroundings(), tracker, false);
      session.sparkContext().addSparkListener(registry);
      Communicator.Limits limits = new Communicator.Limits(60_000, 60_000, 60_000);
      try (Agent agent = Agent.open(job, secret, settings);
          Communicator second = agent.join(0, 0, 1, "a test", limits).orElseThrow()) {
        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, job.toString());
        failingJob(1);
        long begun = System.nanoTime();
        TrainingEvent.Kind reported;
        do {
          assertTrue(
              System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(60),
              () -> "the loss of the second try isn't reported of rank " + second.rank());
          reported = tracker.poll(1_000).map(TrainingEvent::kind).orElse(null);
        } while (reported != TrainingEvent.Kind.RANK_LOST);
      } finally {
        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, null);
        session.sparkContext().removeSparkListener(registry);
      }
    }
  }

  @Test
  void a_task_is_killed_that_spark_reports_after_the_wish_to_kill_it() throws Exception {
    JobId job = JobId.random();
    CountDownLatch wished = new CountDownLatch(1);
    SparkListener late =
        new SparkListener() {
          @Override
          public void onTaskStart(SparkListenerTaskStart event) {
            await(wished);
          }
        };
    try (Tracker tracker =
        Tracker.open(job, Secret.random(), new Tracker.Settings(1, "127.0.0.1"))) {
      SparkRegistry registry = new SparkRegistry(surroundings(), tracker, false);
      // Spark's bus calls one listener after the other, and this one comes first.
      session.sparkContext().addSparkListener(late);
      session.sparkContext().addSparkListener(registry);
      session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, job.toString());
      JavaFutureAction<Void> work =
          JavaSparkContext.fromSparkContext(session.sparkContext())
              .parallelize(List.of(0), 1)
              .foreachPartitionAsync(
                  rows -> {
                    if (TaskContext.get().attemptNumber() == 0) {
                      FIRST_TRY_RUNS.countDown();
                      new CountDownLatch(1).await();
                    }
                  });
      try {
        await(FIRST_TRY_RUNS);
        registry.kill(EventsForTests.killWantedOfTheFirstTry());
        wished.countDown();
        work.get(60, TimeUnit.SECONDS);
      } finally {
        wished.countDown();
        work.cancel(true);
        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, null);
        session.sparkContext().removeSparkListener(registry);
        session.sparkContext().removeSparkListener(late);
      }
    }
  }

  /** Through Spark's own bus, whose queue holds 10,000 events and drops what comes on top. */
  @Test
  void ten_thousand_events_a_second_of_a_thousand_executors_come_through_sparks_bus() {
    try (Tracker tracker =
        Tracker.open(JobId.random(), Secret.random(), new Tracker.Settings(2, "127.0.0.1"))) {
      SparkRegistry registry = new SparkRegistry(surroundings(), tracker, false);
      LiveListenerBus bus = session.sparkContext().listenerBus();
      session.sparkContext().addSparkListener(registry);
      try {
        long before = dropped(bus);
        long begun = System.nanoTime();
        for (int at = 0; at < 30_000; at++) {
          while (System.nanoTime() - begun < at * 100_000L) {
            Thread.onSpinWait();
          }
          bus.post(eventOfAThousandExecutors(at));
        }
        registry.catchUp();
        assertEquals(0, dropped(bus) - before, "events that Spark's queue had no room for");
        assertTrue(registry.facts().summary().startsWith("900 executors on 50 hosts"));
        assertEquals(Optional.of(Registry.State.GONE), registry.facts().executorState("x99"));
        assertEquals(Optional.of(Registry.State.PRESENT), registry.facts().executorState("x100"));
        String kill = registry.facts().killExecutor("x100", "silent", Long.MAX_VALUE).reason();
        assertTrue(kill.startsWith("silent; its last heartbeat came to Spark"), kill);
      } finally {
        session.sparkContext().removeSparkListener(registry);
      }
    }
  }

  /** The first thousand: they come; the last hundred: some go; heartbeats of all in between. */
  private static SparkListenerEvent eventOfAThousandExecutors(int at) {
    String executor = "x" + at % 1_000;
    if (at < 1_000) {
      ExecutorInfo info =
          new ExecutorInfo("host " + at % 50, 1, Map$.MODULE$.<String, String>empty());
      return new SparkListenerExecutorAdded(at, executor, info);
    }
    return at >= 29_000 && at < 29_100
        ? new SparkListenerExecutorRemoved(at, executor, "exit 137")
        : new SparkListenerExecutorMetricsUpdate(executor, NO_UPDATES, Map$.MODULE$.empty());
  }

  private static long dropped(LiveListenerBus bus) {
    return bus.metrics().metricRegistry().getCounters().entrySet().stream()
        .filter(one -> one.getKey().endsWith("numDroppedEvents"))
        .mapToLong(one -> one.getValue().getCount())
        .sum();
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(60, TimeUnit.SECONDS), "what is waited for didn't come");
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
