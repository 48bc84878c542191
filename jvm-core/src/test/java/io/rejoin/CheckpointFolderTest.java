package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Durable checkpoints in a folder that the program brings along. */
class CheckpointFolderTest {
  private static final Communicator.Limits LIMITS = new Communicator.Limits(30_000, 30_000, 30_000);

  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();

  /** Files in memory; writing and listing fail on demand. */
  private static final class MemoryFolder implements CheckpointFolder {
    final ConcurrentHashMap<String, byte[]> files = new ConcurrentHashMap<>();
    volatile Runnable whenWritten = () -> {};
    volatile Runnable whenListed = () -> {};

    @Override
    public String[] names() {
      whenListed.run();
      return files.keySet().toArray(new String[0]);
    }

    @Override
    public long length(String name) {
      return files.get(name).length;
    }

    @Override
    public void read(String name, long from, ByteBuffer into) {
      into.put(files.get(name), (int) from, into.remaining());
    }

    @Override
    public void write(String name, ByteBuffer[] parts) throws IOException {
      whenWritten.run();
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      for (ByteBuffer part : parts) {
        assertTrue(part.isReadOnly());
        byte[] copy = new byte[part.remaining()];
        part.get(copy);
        bytes.write(copy);
      }
      files.put(name, bytes.toByteArray());
    }

    @Override
    public void remove(String name) {
      files.remove(name);
    }

    @Override
    public String toString() {
      return "a folder in memory";
    }
  }

  private Tracker tracker() {
    return Tracker.open(job, secret, new Tracker.Settings(1, "127.0.0.1"));
  }

  private static AgentSettings settings(Tracker tracker, String name) {
    return new AgentSettings(tracker.address()).place(name, "127.0.0.1", "localhost");
  }

  private static TrainingEvent await(Tracker tracker, TrainingEvent.Kind kind) {
    TrainingEvent event;
    do {
      event = tracker.poll(30_000).orElseThrow();
      assertTrue(
          kind == event.kind() || event.kind() != TrainingEvent.Kind.DURABLE_FAILED,
          event.toString());
    } while (event.kind() != kind);
    return event;
  }

  @Test
  void when_all_processes_are_gone_those_who_come_go_on_from_it() {
    MemoryFolder folder = new MemoryFolder();
    try (Tracker tracker = tracker()) {
      try (Agent agent =
              Agent.open(job, secret, settings(tracker, "one"), new DurableCheckpoints(folder, 3));
          Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
        ranks.load();
        for (byte version = 1; version <= 4; version++) {
          ranks.checkpoint(new byte[] {version, 7});
        }
        await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
      }
      try (Agent agent =
              Agent.open(
                  job, secret, settings(tracker, "another"), new DurableCheckpoints(folder, 3));
          Communicator ranks = agent.join(0, 0, 1, "terms", LIMITS).orElseThrow()) {
        Communicator.Loaded start = ranks.load();
        assertEquals(3, start.version());
        assertArrayEquals(new byte[] {3, 7}, start.model().orElseThrow());
        ranks.finish(new byte[0]);
      }
    }
  }

  @Test
  void a_later_job_goes_on_from_the_newest_one_of_its_name() {
    MemoryFolder folder = new MemoryFolder();
    DurableCheckpoints durable = new DurableCheckpoints(folder, 1).named("a job");
    try (Tracker tracker = tracker();
        Agent agent = Agent.open(job, secret, settings(tracker, "one"), durable);
        Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
      ranks.load();
      ranks.checkpoint(new byte[] {1});
      ranks.checkpoint(new byte[] {2});
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
    }
    assertEquals(2, startOfALaterJob(durable));
    assertEquals(0, startOfALaterJob(new DurableCheckpoints(folder, 1).named("another")));
    folder.files.replaceAll((name, bytes) -> Arrays.copyOf(bytes, bytes.length - 1));
    assertEquals(0, startOfALaterJob(durable), "from files that were cut");
    Tracker.Settings settings = new Tracker.Settings(1, "127.0.0.1");
    RejoinException unnamed =
        assertThrows(
            RejoinException.class, () -> settings.resume(new DurableCheckpoints(folder, 1)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, unnamed.code());
  }

  /** The version that a job with an id and a secret of its own begins with. */
  private static int startOfALaterJob(DurableCheckpoints durable) {
    JobId later = JobId.random();
    Secret secret = Secret.random();
    Tracker.Settings settings = new Tracker.Settings(1, "127.0.0.1").resume(durable);
    try (Tracker tracker = Tracker.open(later, secret, settings);
        Agent agent = Agent.open(later, secret, settings(tracker, "later"), durable);
        Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
      int version = ranks.load().version();
      ranks.finish(new byte[0]);
      return version;
    }
  }

  @Test
  void a_later_life_of_the_tracker_leaves_the_files_of_its_running_job_alone(@TempDir Path state) {
    MemoryFolder files = new MemoryFolder();
    DurableCheckpoints durable = new DurableCheckpoints(files, 1).named("a job");
    Tracker.Settings settings =
        new Tracker.Settings(1, "127.0.0.1").state(state.resolve("state")).resume(durable);
    Tracker first = Tracker.open(settings);
    try (Agent agent = Agent.open(first.job(), first.secret(), settings(first, "one"), durable);
        Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
      ranks.load();
      ranks.checkpoint(new byte[] {1}, new byte[] {7});
      await(first, TrainingEvent.Kind.DURABLE_WRITTEN);
      await(first, TrainingEvent.Kind.DURABLE_WRITTEN);
      // As a version of which a rank's own model is still to come.
      assertTrue(files.files.keySet().removeIf(name -> name.contains("-rank-0")));
      Tracker second = Tracker.open(settings);
      assertEquals(1, files.files.size());
      files.whenListed =
          () -> {
            throw new IllegalStateException("nobody is at the desk");
          };
      try (Tracker third = Tracker.open(settings)) {
        assertEquals(3, third.life());
      }
      second.close();
    }
    first.close();
  }

  @Test
  void a_checkpoint_whose_turn_comes_when_training_has_gone_on_is_written_all_the_same() {
    MemoryFolder folder = new MemoryFolder();
    CountDownLatch goneOn = new CountDownLatch(1);
    folder.whenWritten =
        () -> {
          try {
            goneOn.await();
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        };
    try (Tracker tracker = tracker();
        Agent agent =
            Agent.open(job, secret, settings(tracker, "one"), new DurableCheckpoints(folder, 3));
        Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
      ranks.load();
      for (byte version = 1; version <= 5; version++) {
        ranks.checkpoint(new byte[] {version}, new byte[] {7});
      }
      goneOn.countDown();
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
      assertEquals(2, folder.files.size());
      ranks.finish(new byte[0]);
    }
  }

  @Test
  void what_it_throws_is_told_and_the_checkpoints_before_it_stay() {
    MemoryFolder folder = new MemoryFolder();
    try (Tracker tracker = tracker();
        Agent agent =
            Agent.open(job, secret, settings(tracker, "one"), new DurableCheckpoints(folder, 1));
        Communicator ranks = agent.join(0, 0, 0, "terms", LIMITS).orElseThrow()) {
      ranks.load();
      ranks.checkpoint(new byte[] {1});
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
      folder.whenWritten =
          () -> {
            throw new IllegalStateException("the store is on strike");
          };
      ranks.checkpoint(new byte[] {2});
      String reported = await(tracker, TrainingEvent.Kind.DURABLE_FAILED).toString();
      assertTrue(
          reported.contains("the store is on strike") && reported.contains("in memory"), reported);
      assertEquals(1, folder.files.size());
      folder.whenWritten = () -> {};
      ranks.checkpoint(new byte[] {3});
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN);
      ranks.finish(new byte[0]);
    }
  }

  @Test
  void a_folder_that_cannot_be_listed_and_two_folders_and_no_versions_are_refused() {
    MemoryFolder folder = new MemoryFolder();
    folder.whenListed =
        () -> {
          throw new IllegalStateException("nobody is at the desk");
        };
    try (Tracker tracker = tracker()) {
      AgentSettings settings = settings(tracker, "one");
      RejoinException failed =
          assertThrows(
              RejoinException.class,
              () -> Agent.open(job, secret, settings, new DurableCheckpoints(folder, 1)));
      assertEquals(RejoinException.Code.IO, failed.code());
      assertTrue(failed.getMessage().contains("nobody is at the desk"), failed.getMessage());
      failed =
          assertThrows(
              RejoinException.class,
              () ->
                  Agent.open(job, secret, settings, new DurableCheckpoints(new MemoryFolder(), 0)));
      assertEquals(RejoinException.Code.BAD_ARGUMENT, failed.code());
      settings.durable("/tmp", 1);
      failed =
          assertThrows(
              RejoinException.class,
              () ->
                  Agent.open(job, secret, settings, new DurableCheckpoints(new MemoryFolder(), 1)));
      assertEquals(RejoinException.Code.BAD_ARGUMENT, failed.code());
    }
  }
}
