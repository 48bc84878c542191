package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.settings.CommonSettings;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Communicators of one JVM, with a tracker of its own. */
class CommunicatorTest {
  private static final Communicator.Limits LIMITS = new Communicator.Limits(30_000, 30_000, 30_000);

  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();

  private Agent agent(Tracker tracker, String name) {
    AgentSettings settings = new AgentSettings(tracker.address());
    return Agent.open(job, secret, settings.place(name, "127.0.0.1", "localhost"));
  }

  private Tracker tracker(int world) {
    return Tracker.open(job, secret, new Tracker.Settings(world, "127.0.0.1"));
  }

  /** Every rank's work on a thread of its own, all in one agent; results in rank order. */
  private <T> List<T> all(int world, Function<Communicator, T> work) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(world);
    try (Tracker tracker = tracker(world);
        Agent agent = agent(tracker, "the only one")) {
      List<Future<T>> results = new ArrayList<>();
      for (int rank = 0; rank < world; rank++) {
        int own = rank;
        results.add(
            threads.submit(
                () -> {
                  try (Communicator ranks = agent.join(own, 0, 0, "a test", LIMITS).orElseThrow()) {
                    ranks.load();
                    return work.apply(ranks);
                  }
                }));
      }
      List<T> all = new ArrayList<>();
      for (Future<T> result : results) {
        all.add(result.get());
      }
      return all;
    } finally {
      threads.shutdownNow();
    }
  }

  private static RejoinException fails(RejoinException.Code code, String said, Executable call) {
    RejoinException failure = assertThrows(RejoinException.class, call);
    assertEquals(code, failure.code(), failure.getMessage());
    assertTrue(failure.text().contains(said), failure.text());
    return failure;
  }

  private static void refused(String said, Executable call) {
    fails(RejoinException.Code.BAD_ARGUMENT, said, call);
  }

  @Test
  void several_ranks_of_one_process_compute_together() throws Exception {
    List<Double> sums =
        all(
            3,
            ranks -> {
              double[] sum = {ranks.rank() + 0.5};
              ranks.allreduce(sum, Reduction.SUM);
              Placement here = ranks.placement();
              assertEquals(List.of(ranks.rank(), 3), List.of(here.localRank(), here.localSize()));
              assertEquals(List.of(0, 1), List.of(here.crossRank(), here.crossSize()));
              ranks.checkpoint(ByteBuffer.allocateDirect(3));
              ranks.finish(new byte[1]);
              return sum[0];
            });
    assertEquals(List.of(4.5, 4.5, 4.5), sums);
  }

  @Test
  void what_cannot_be_is_refused_and_the_communicator_stays_usable() throws Exception {
    all(
        1,
        ranks -> {
          ByteBuffer heap = ByteBuffer.allocate(8);
          ByteBuffer direct = ByteBuffer.allocateDirect(8);
          CallOptions none = CallOptions.NONE;
          refused("isn't direct", () -> ranks.allreduce(heap, Element.F64, Reduction.SUM, none));
          ByteBuffer fixed = direct.asReadOnlyBuffer();
          refused("read-only", () -> ranks.allreduce(fixed, Element.F64, Reduction.SUM, none));
          refused("not defined for f64", () -> ranks.allreduce(new double[1], Reduction.XOR));
          ByteBuffer odd = ByteBuffer.allocateDirect(7);
          refused("7 bytes", () -> ranks.allreduce(odd, Element.F64, Reduction.SUM, none));
          refused("overlap", () -> ranks.allgather(direct, direct.duplicate(), Element.F64, none));
          refused("rank 3", () -> ranks.broadcast(new double[1], 3));
          refused("must not be negative", () -> ranks.broadcast(new double[1], -1));
          refused("1 to", () -> ranks.allreduce(direct, 0, "none", (a, b) -> {}, none));
          refused("must not be empty", () -> none.boot(""));
          refused("of rank 1 in a world of 1", () -> ranks.part(1, 5, none));
          ranks.allreduce(new int[1], Reduction.SUM, none.boot("once"));
          CallOptions again = none.boot("once");
          refused("used before", () -> ranks.allreduce(new int[1], Reduction.SUM, again));
          int[] one = {1};
          ranks.allreduce(one, Reduction.SUM);
          assertEquals(1, one[0]);
          ranks.finish(new byte[0]);
          fails(RejoinException.Code.BAD_STATE, "reported its end", ranks::barrier);
          return null;
        });
  }

  @Test
  void the_settings_of_logs_are_kept_to_and_an_error_names_them() {
    AgentSettings settings;
    try (Tracker tracker = tracker(1)) {
      settings = new AgentSettings(tracker.address()).place("here", "127.0.0.1", "localhost");
      settings
          .with(CommonSettings.of(Map.of("log.memory", "20000", "log.disk", "1")))
          .spillDirectory(System.getProperty("java.io.tmpdir"));
      try (Agent agent = Agent.open(job, secret, settings);
          Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
        ranks.load();
        Executable many =
            () -> {
              for (int i = 0; i < 10; i++) {
                ranks.allreduce(new double[1000], Reduction.SUM);
              }
            };
        fails(RejoinException.Code.OUT_OF_SPACE, "20000", many);
      }
    }
  }

  @Test
  void an_agent_with_another_number_of_copies_of_own_models_is_refused_and_so_are_none_at_all() {
    try (Tracker tracker = tracker(1)) {
      AgentSettings settings = new AgentSettings(tracker.address());
      settings.place("one", "127.0.0.1", "localhost").ownCopies(1);
      AgentSettings others = settings.copy().place("other", "127.0.0.1", "localhost").ownCopies(3);
      try (Agent agent = Agent.open(job, secret, settings);
          Agent other = Agent.open(job, secret, others);
          Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
        ranks.load();
        Executable join = () -> other.join(0, 0, 1, "terms", LIMITS);
        RejoinException failed = fails(RejoinException.Code.INCOMPATIBLE, "own_copies 1;", join);
        assertTrue(failed.text().contains("own_copies 3;"), failed.text());
        ranks.checkpoint(new byte[0], new byte[] {1});
        ranks.finish(new byte[0]);
      }
      Executable open = () -> Agent.open(job, secret, others.copy().ownCopies(0));
      refused("own_copies", open);
    }
  }

  @Test
  void when_all_processes_are_gone_those_who_come_go_on_from_the_durable_checkpoint(
      @TempDir Path folder) {
    try (Tracker tracker = tracker(1)) {
      AgentSettings settings = new AgentSettings(tracker.address());
      settings.place("one", "127.0.0.1", "localhost").durable(folder.toString(), 2);
      try (Agent agent = Agent.open(job, secret, settings);
          Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
        ranks.load();
        for (byte version = 1; version <= 3; version++) {
          ranks.checkpoint(new byte[] {version});
        }
        while (tracker.poll(30_000).orElseThrow().kind() != TrainingEvent.Kind.DURABLE_WRITTEN) {
          // what happened before
        }
      }
      settings = settings.copy().place("another", "127.0.0.1", "localhost");
      try (Agent agent = Agent.open(job, secret, settings);
          Communicator ranks = agent.join(0, 0, 1, "terms", LIMITS).orElseThrow()) {
        Communicator.Loaded start = ranks.load();
        assertEquals(2, start.version());
        assertEquals(2, start.model().orElseThrow()[0]);
        ranks.finish(new byte[0]);
      }
    }
  }

  @Test
  void a_call_before_load_is_refused_with_its_site_and_what_to_write_in_java() {
    try (Tracker tracker = tracker(1);
        Agent agent = agent(tracker, "here");
        Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
      ranks.allreduce(new int[1], Reduction.SUM, CallOptions.NONE.boot());
      fails(RejoinException.Code.BAD_STATE, "no call has failed", ranks::joinAgain);
      String text =
          fails(
                  RejoinException.Code.BAD_STATE,
                  "`CallOptions.NONE.boot()`",
                  () -> ranks.allreduce(new int[2], Reduction.SUM))
              .text();
      assertTrue(text.contains("allreduce(2 i32, sum) at CommunicatorTest.java:"), text);
      assertTrue(text.contains("Call load() first"), text);
    }
  }

  @Test
  void a_communicator_may_be_closed_twice_and_not_used_after_it() throws Exception {
    try (Tracker tracker = tracker(1)) {
      Agent agent = agent(tracker, "here");
      Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow();
      agent.close();
      agent.close();
      ranks.load();
      ranks.barrier();
      ranks.close();
      ranks.close();
      ranks.abandon(RejoinException.Code.IO, "too late");
      fails(RejoinException.Code.BAD_STATE, "closed", ranks::barrier);
      fails(RejoinException.Code.BAD_STATE, "closed", ranks::load);
      fails(RejoinException.Code.BAD_STATE, "closed", ranks::version);
      fails(RejoinException.Code.BAD_STATE, "closed", () -> ranks.finish(new byte[0]));
      fails(RejoinException.Code.BAD_STATE, "closed", () -> ranks.checkpoint(new byte[0]));
      fails(
          RejoinException.Code.BAD_STATE,
          "closed",
          () -> ranks.allreduce(new int[1], Reduction.SUM));
      assertTrue(ranks.toString().contains("closed"));
      fails(RejoinException.Code.BAD_STATE, "closed", () -> agent.join(0, 0, 1, "terms", LIMITS));
    }
  }

  @Test
  void closing_from_another_thread_ends_the_call_that_is_under_way() throws Exception {
    CountDownLatch both = new CountDownLatch(2);
    try (Tracker tracker = tracker(2);
        Agent agent = agent(tracker, "here")) {
      ExecutorService threads = Executors.newFixedThreadPool(2);
      List<Future<Communicator>> joined = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        int own = rank;
        joined.add(threads.submit(() -> agent.join(own, 0, 0, "terms", LIMITS).orElseThrow()));
      }
      Communicator waiting = joined.get(0).get();
      Communicator other = joined.get(1).get();
      waiting.load();
      Future<RejoinException> ended =
          threads.submit(
              () ->
                  assertThrows(
                      RejoinException.class,
                      () -> {
                        CallOptions options = CallOptions.NONE.prepare(both::countDown);
                        waiting.allreduce(new int[1], Reduction.SUM, options);
                      }));
      both.countDown();
      both.await();
      waiting.close();
      RejoinException failure = ended.get();
      assertEquals(RejoinException.Code.CANCELLED, failure.code(), failure.getMessage());
      other.close();
      threads.shutdownNow();
    }
  }

  @Test
  void a_callbacks_exception_is_the_cause_and_ends_the_job_at_every_rank() throws Exception {
    List<RejoinException> failures =
        all(
            2,
            ranks -> {
              ByteBuffer buffer = ByteBuffer.allocateDirect(8);
              Communicator.Fold fold =
                  (accumulator, other) -> {
                    throw new IllegalStateException("can't be added");
                  };
              return assertThrows(
                  RejoinException.class,
                  () -> ranks.allreduce(buffer, 8, "bad", fold, CallOptions.NONE));
            });
    List<Throwable> causes = new ArrayList<>();
    for (RejoinException failure : failures) {
      assertEquals(RejoinException.Code.TRAINING_FAILED, failure.code(), failure.getMessage());
      assertTrue(failure.text().contains("`bad`"), failure.text());
      if (failure.getCause() != null) {
        causes.add(failure.getCause());
      }
    }
    assertEquals("can't be added", causes.get(0).getMessage());
  }

  @Test
  void different_calls_are_named_with_their_sites() throws Exception {
    List<RejoinException> failures =
        all(
            2,
            ranks ->
                assertThrows(
                    RejoinException.class,
                    () -> ranks.allreduce(new double[2 + ranks.rank()], Reduction.SUM)));
    for (RejoinException failure : failures) {
      assertEquals(RejoinException.Code.MISMATCH, failure.code(), failure.getMessage());
      String text = failure.text();
      assertTrue(text.contains("allreduce(2 f64, sum)"), text);
      assertTrue(text.contains("allreduce(3 f64, sum)"), text);
      assertTrue(text.contains("CommunicatorTest.java:"), text);
    }
  }

  @Test
  void a_task_that_is_retried_goes_on_from_the_last_checkpoint() {
    try (Tracker tracker = tracker(1);
        Agent agent = agent(tracker, "here")) {
      try (Communicator first = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
        assertEquals(0, first.load().version());
        first.checkpoint(new byte[] {1, 2});
      }
      try (Communicator second = agent.join(0, 0, 1, "terms", LIMITS).orElseThrow()) {
        assertEquals(1, second.incarnation());
        Communicator.Loaded start = second.load();
        assertEquals(1, start.version());
        assertEquals(2, start.model().orElseThrow()[1]);
        second.finish(new byte[] {7});
      }
      assertTrue(agent.join(0, 0, 2, "terms", LIMITS).isEmpty(), "the job is over");
      while (tracker.poll(30_000).orElseThrow().kind() != TrainingEvent.Kind.JOB_ENDED) {
        // what happened before
      }
      assertEquals(7, tracker.result()[0]);
    }
  }

  @Test
  void a_jvm_that_nobody_launched_is_told_how_to_be() {
    fails(RejoinException.Code.BAD_STATE, "rejoin run", () -> Communicator.launched("alone"));
    assertNotNull(Communicator.digest(new byte[0]));
  }
}
