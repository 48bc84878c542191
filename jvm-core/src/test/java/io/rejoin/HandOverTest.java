package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** A job that begins with a model of an earlier one, which its program hands over. */
class HandOverTest {
  private static final int WORLD = 3;
  private static final int END = 10;

  /** No rank dies. */
  private static final int NEVER = -1;

  /** Reached only when something is broken. */
  private static final Communicator.Limits LIMITS = new Communicator.Limits(30_000, 30_000, 30_000);

  private final Secret secret = Secret.random();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<Agent> agents = new ArrayList<>();
  private JobId job = JobId.random();

  @AfterEach
  void stop() {
    agents.forEach(Agent::close);
    threads.shutdownNow();
  }

  private Tracker.Settings settings() {
    return new Tracker.Settings(WORLD, "127.0.0.1");
  }

  private Agent agent(Tracker tracker, String name) {
    AgentSettings settings = new AgentSettings(tracker.address());
    Agent agent = Agent.open(job, secret, settings.place(name, "127.0.0.1", "localhost"));
    agents.add(agent);
    return agent;
  }

  /** A rank's models by version, from the one that it starts with on. */
  private static List<byte[]> train(Agent agent, int rank, int task, int diesIn) {
    List<byte[]> models = new ArrayList<>();
    try (Communicator ranks = agent.join(rank, 0, task, "a test", LIMITS).orElseThrow()) {
      Communicator.Loaded start = ranks.load();
      byte[] model = start.model().orElse(new byte[Long.BYTES]);
      for (int version = 0; version < start.version(); version++) {
        models.add(null);
      }
      models.add(model);
      for (int version = start.version(); version < END; version++) {
        if (version == diesIn) {
          return models;
        }
        long[] sum = {(rank + 1) * (ByteBuffer.wrap(model).getLong() + 31) + version};
        ranks.allreduce(sum, Reduction.SUM);
        model = ByteBuffer.allocate(Long.BYTES).putLong(sum[0]).array();
        ranks.checkpoint(model);
        models.add(model);
      }
      ranks.finish(model);
    }
    return models;
  }

  /** What comes of a rank, if nothing goes wrong. */
  private static <T> T result(Future<T> future) throws Exception {
    return future.get(60, TimeUnit.SECONDS);
  }

  private Future<List<byte[]>> rank(Agent agent, int rank, int task, int diesIn) {
    return threads.submit(() -> train(agent, rank, task, diesIn));
  }

  private List<Future<List<byte[]>>> each(int dyingRank, int diesIn) {
    List<Future<List<byte[]>>> all = new ArrayList<>();
    for (int rank = 0; rank < WORLD; rank++) {
      all.add(rank(agents.get(rank), rank, 0, rank == dyingRank ? diesIn : NEVER));
    }
    return all;
  }

  private void processes(Tracker tracker) {
    for (int rank = 0; rank < WORLD; rank++) {
      agent(tracker, "process " + rank);
    }
  }

  /** The models by version of a job that begins from nothing. */
  private List<byte[]> undisturbed() throws Exception {
    try (Tracker tracker = Tracker.open(job, secret, settings())) {
      processes(tracker);
      List<byte[]> models = result(each(NEVER, NEVER).get(0));
      agents.forEach(Agent::close);
      agents.clear();
      job = JobId.random();
      return models;
    }
  }

  @Test
  void ranks_with_and_without_the_model_go_on_from_it_though_one_is_killed_later()
      throws Exception {
    List<byte[]> expected = undisturbed();
    byte[] fourth = expected.get(4);
    Tracker.Settings settings = settings().startFrom(4, Communicator.digest(fourth));
    try (Tracker tracker = Tracker.open(job, secret, settings)) {
      processes(tracker);
      agents.get(1).handOver(4, fourth);
      List<Future<List<byte[]>>> all = each(1, 6);
      // The only process that was handed the model dies.
      List<byte[]> ofTheDead = result(all.get(1));
      agents.get(1).close();
      Agent next = agent(tracker, "process 3");
      next.handOver(4, fourth);
      List<byte[]> ofTheNext = result(rank(next, 1, 1, NEVER));
      for (List<byte[]> models : List.of(result(all.get(0)), result(all.get(2)))) {
        assertEquals(END + 1, models.size());
        for (int version = 4; version <= END; version++) {
          assertArrayEquals(expected.get(version), models.get(version), "version " + version);
        }
      }
      assertArrayEquals(fourth, ofTheDead.get(4));
      assertArrayEquals(expected.get(END), ofTheNext.get(END));
      assertNull(ofTheNext.get(4), "it went on where the others were, not from the beginning");
    }
  }

  private RejoinException fails(Future<?> rank) {
    ExecutionException ended = assertThrows(ExecutionException.class, () -> result(rank));
    return (RejoinException) ended.getCause();
  }

  /** All ranks' joins end with this code and these words. */
  private void endsAll(RejoinException.Code code, String... said) {
    for (Future<?> rank : each(NEVER, NEVER)) {
      RejoinException failure = fails(rank);
      assertEquals(code, failure.code(), failure.getMessage());
      for (String words : said) {
        assertTrue(failure.text().contains(words), words + ": " + failure.text());
      }
    }
  }

  @Test
  void a_job_to_which_nobody_hands_its_model_ends_and_says_what_it_was_to_begin_with() {
    String digest = Communicator.digest(new byte[] {1, 2});
    try (Tracker tracker = Tracker.open(job, secret, settings().startFrom(7, digest))) {
      processes(tracker);
      endsAll(RejoinException.Code.UNRECOVERABLE, "version 7", digest, "agents are handed");
    }
  }

  @Test
  void other_bytes_than_the_expected_ones_end_the_job_with_both_digests_and_the_process() {
    byte[] good = {1, 2};
    byte[] other = {2, 1};
    String digest = Communicator.digest(good);
    try (Tracker tracker = Tracker.open(job, secret, settings().startFrom(7, digest))) {
      processes(tracker);
      agents.get(0).handOver(7, good);
      agents.get(2).handOver(7, other);
      String seen = "process 2 was handed version 7 ";
      String found = Communicator.digest(other);
      endsAll(RejoinException.Code.MISMATCH, seen, found, "begins with", digest);
    }
  }

  @Test
  void another_version_than_the_expected_one_ends_the_job_and_so_does_any_where_none_is_expected() {
    byte[] good = {1, 2};
    String digest = Communicator.digest(good);
    try (Tracker tracker = Tracker.open(job, secret, settings().startFrom(7, digest))) {
      processes(tracker);
      agents.get(0).handOver(7, good);
      agents.get(1).handOver(8, good);
      String seen = "process 1 was handed version 8";
      endsAll(RejoinException.Code.MISMATCH, seen, "begins with version 7");
    }
    agents.clear();
    try (Tracker tracker = Tracker.open(job, secret, settings())) {
      processes(tracker);
      agents.get(1).handOver(8, good);
      endsAll(RejoinException.Code.MISMATCH, "version 8", "begins from nothing");
    }
  }

  @Test
  void a_model_without_bytes_is_a_model() throws Exception {
    byte[] none = {};
    Tracker.Settings settings = new Tracker.Settings(1, "127.0.0.1");
    settings.startFrom(3, Communicator.digest(none));
    try (Tracker tracker = Tracker.open(job, secret, settings)) {
      Agent agent = agent(tracker, "here");
      agent.handOver(3, none);
      try (Communicator ranks = agent.join(0, 0, 0, "a test", LIMITS).orElseThrow()) {
        Communicator.Loaded start = ranks.load();
        assertEquals(3, start.version());
        assertEquals(0, start.model().orElseThrow().length);
        ranks.checkpoint(none);
        ranks.finish(none);
      }
    }
  }

  private static void refused(RejoinException.Code code, String said, Executable call) {
    RejoinException failure = assertThrows(RejoinException.class, call);
    assertEquals(code, failure.code(), failure.getMessage());
    assertTrue(failure.text().contains(said), failure.text());
  }

  @Test
  void what_no_job_can_begin_with_is_refused_where_it_is_said() {
    RejoinException.Code bad = RejoinException.Code.BAD_ARGUMENT;
    String digest = Communicator.digest(new byte[1]);
    Tracker.Settings halved = settings().startFrom(1, "12ab");
    refused(bad, "32 hexadecimal digits", () -> Tracker.open(job, secret, halved));
    Tracker.Settings zero = settings().startFrom(0, digest);
    refused(bad, "version above 0", () -> Tracker.open(job, secret, zero));
    try (Tracker tracker = Tracker.open(job, secret, settings())) {
      Agent agent = agent(tracker, "here");
      refused(bad, "version 0", () -> agent.handOver(0, new byte[1]));
      agent.handOver(1, new byte[1]);
      agent.handOver(1, new byte[1]);
      RejoinException.Code mismatch = RejoinException.Code.MISMATCH;
      refused(mismatch, "other bytes", () -> agent.handOver(1, new byte[2]));
      agent.close();
      refused(RejoinException.Code.BAD_STATE, "closed", () -> agent.handOver(1, new byte[1]));
    }
  }
}
