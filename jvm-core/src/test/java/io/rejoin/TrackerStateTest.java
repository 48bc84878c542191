package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Drivers that are killed (SIGKILL) while their ranks train, and started anew. Real processes. */
class TrackerStateTest {
  private static final long LIMIT_SECONDS = 60;

  private final List<Process> started = new ArrayList<>();
  @TempDir private Path folder;

  @AfterEach
  void nothing_is_left() {
    started.forEach(Process::destroyForcibly);
  }

  private Process start(String name, String... command) throws IOException {
    Process process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(folder.resolve(name).toFile())
            .start();
    started.add(process);
    return process;
  }

  private static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  private Process driver(String name, String address, int port) throws IOException {
    String classPath = System.getProperty("rejoin.test.classpath");
    String state = folder.resolve("state").toString();
    return start(
        name, java(), "-cp", classPath, "io.rejoin.DriverProgram", state, address, "" + port);
  }

  private Process ranks(Path go) throws IOException {
    String join = folder.resolve("state/join").toString();
    String classPath = System.getProperty("rejoin.test.classpath");
    String launcher = System.getProperty("rejoin.test.launcher");
    return start(
        "ranks",
        launcher,
        "run",
        "--join",
        join,
        "--ranks",
        "0-1",
        "--restart",
        "--timeout",
        "90s",
        "--",
        java(),
        "-XX:+UseSerialGC",
        "-cp",
        classPath,
        "io.rejoin.SlowProgram",
        go.toString());
  }

  private String said(String name) throws IOException {
    return Files.readString(folder.resolve(name));
  }

  private void until(String name, String text, int times) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
    while (said(name).split(text, -1).length <= times) {
      assertTrue(System.nanoTime() < deadline, name + " never says " + text + ": " + said(name));
      Thread.sleep(5); // Between two looks; the deadline decides, not this.
    }
  }

  private void ends(Process process, String name) throws Exception {
    assertTrue(process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS), said(name));
    assertEquals(0, process.exitValue(), said(name));
  }

  private void driver_is_replaced(String first, String second, int port) throws Exception {
    Path go = folder.resolve("go");
    Process driver = driver("first", first, port);
    until("first", "life 1 at", 1);
    Process ranks = ranks(go);
    until("ranks", "is in the middle", 2);
    driver.destroyForcibly().waitFor();
    Process next = driver("second", second, port);
    until("second", "life 2 at " + second, 1);
    // Only now they go on, and rank 1 dies, which only this driver can see to.
    Files.createFile(go);
    until("second", "result 36", 1);
    ends(ranks, "ranks");
    next.getOutputStream().close();
    ends(next, "second");
    assertEquals(3, said("ranks").split("digest 36.0", -1).length, said("ranks"));
    assertFalse(Files.exists(folder.resolve("state/join")), "the file goes with the job");
  }

  @Test
  void a_driver_that_is_killed_and_started_anew_takes_the_job_over_at_its_port() throws Exception {
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    driver_is_replaced("127.0.0.1", "127.0.0.1", port);
    String at = "at 127.0.0.1:" + port;
    assertTrue(said("first").contains(at) && said("second").contains(at), said("second"));
  }

  @Test
  void ranks_find_a_driver_that_is_started_anew_at_another_address() throws Exception {
    driver_is_replaced("127.0.0.1", "127.0.0.9", 0);
  }

  private static String field(String file, String name) {
    Matcher found = Pattern.compile('"' + name + "\": \"([^\"]*)\"").matcher(file);
    assertTrue(found.find(), name);
    return found.group(1);
  }

  @Test
  void agents_that_are_told_the_file_find_a_driver_that_is_started_anew() throws Exception {
    Process driver = driver("first", "127.0.0.1", 0);
    until("first", "life 1 at", 1);
    Path join = folder.resolve("state/join");
    // What a driver hands to its processes.
    String file = Files.readString(join);
    AgentSettings settings = new AgentSettings(field(file, "tracker")).joinFile(join);
    JobId job = JobId.of(field(file, "id"));
    Secret secret = Secret.of(field(file, "secret"));
    ExecutorService threads = Executors.newCachedThreadPool();
    CountDownLatch middle = new CountDownLatch(2);
    CountDownLatch go = new CountDownLatch(1);
    Communicator.Limits limits = new Communicator.Limits(60_000, 60_000, 60_000);
    try (Agent agent = Agent.open(job, secret, settings.place("here", "127.0.0.1", "localhost"))) {
      List<Future<Void>> ends = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        int mine = rank;
        ends.add(
            threads.submit(
                () -> {
                  try (Communicator ranks =
                      agent.join(mine, 0, 0, "a test", limits, Optional::empty).orElseThrow()) {
                    ranks.load();
                    ranks.checkpoint(new byte[] {1});
                    middle.countDown();
                    go.await();
                    double[] sum = {mine + 1};
                    ranks.allreduce(sum, Reduction.SUM);
                    ranks.finish(new byte[] {(byte) sum[0]});
                  }
                  return null;
                }));
      }
      assertTrue(middle.await(LIMIT_SECONDS, TimeUnit.SECONDS));
      driver.destroyForcibly().waitFor();
      Process next = driver("second", "127.0.0.9", 0);
      go.countDown();
      for (Future<Void> end : ends) {
        end.get(LIMIT_SECONDS, TimeUnit.SECONDS);
      }
      until("second", "result 3", 1);
      next.getOutputStream().close();
      ends(next, "second");
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void of_two_lives_the_later_one_has_the_job_and_the_other_one_is_told() throws Exception {
    Tracker.Settings settings = new Tracker.Settings(2, "127.0.0.1").state(folder.resolve("state"));
    Path file = folder.resolve("state/join");
    Tracker first = Tracker.open(settings);
    try (Tracker second = Tracker.open(settings)) {
      assertEquals(first.job(), second.job());
      assertEquals(first.secret().digits(), second.secret().digits());
      assertEquals(List.of(1, 2), List.of(first.life(), second.life()));
      for (int call = 0; call < 2; call++) {
        RejoinException told = assertThrows(RejoinException.class, () -> first.poll(60_000));
        assertEquals(RejoinException.Code.BAD_STATE, told.code());
        assertTrue(told.getMessage().contains("life 2 at " + second.address()), told.getMessage());
      }
      first.close();
      assertTrue(Files.exists(file), "it is the later one's");
      assertFalse(second.poll(0).isPresent());
    }
    assertFalse(Files.exists(file));
  }

  @Test
  void a_state_that_others_can_read_or_of_another_job_is_refused() throws Exception {
    Path state = folder.resolve("state");
    Tracker.Settings two = new Tracker.Settings(2, "127.0.0.1").state(state);
    try (Tracker tracker = Tracker.open(two)) {
      assertEquals(1, tracker.life());
      refused("2 ranks, and job state with 3 ranks was asked for", 3, state);
      Files.setPosixFilePermissions(
          state.resolve("join"), PosixFilePermissions.fromString("rw-r-----"));
      refused("mode 640", 2, state);
    }
    RejoinException error =
        assertThrows(
            RejoinException.class, () -> Tracker.open(JobId.random(), Secret.random(), two));
    assertTrue(error.getMessage().contains("Tracker.open(settings)"), error.getMessage());
  }

  private static void refused(String text, int world, Path state) {
    Tracker.Settings settings = new Tracker.Settings(world, "127.0.0.1").state(state);
    RejoinException error =
        assertThrows(RejoinException.class, () -> Tracker.open(settings).close());
    assertEquals(RejoinException.Code.BAD_ARGUMENT, error.code());
    assertTrue(error.getMessage().contains(text), error.getMessage());
  }
}
