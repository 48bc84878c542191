package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import java.io.File;
import java.nio.file.Files;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** One application writes to a durable folder. */
class WriterLockTest {
  @TempDir File scratch;

  private DurableFolder folder() {
    return new DurableFolder(scratch.toURI().toString(), new Configuration(), 1);
  }

  private WriterLock take(String owner) {
    return WriterLock.take(folder(), owner, () -> {});
  }

  @Test
  void a_second_one_is_refused_with_the_name_of_the_first_while_that_is_at_work() {
    try (WriterLock first = take("the first")) {
      RejoinException refused = assertThrows(RejoinException.class, () -> take("the second"));
      assertEquals(Code.BAD_ARGUMENT, refused.code());
      assertTrue(refused.text().contains("written to by the first"), refused.text());
      assertNull(first.loss());
    }
  }

  @Test
  void of_two_that_come_at_the_same_time_not_both_have_it() throws Exception {
    for (int round = 0; round < 4; round++) {
      String place = new File(scratch, "round-" + round).toURI().toString();
      CyclicBarrier same = new CyclicBarrier(2);
      List<WriterLock> had = new CopyOnWriteArrayList<>();
      Runnable takes =
          () -> {
            try {
              same.await();
              DurableFolder folder = new DurableFolder(place, new Configuration(), 1);
              had.add(WriterLock.take(folder, "one of two", () -> {}));
            } catch (RejoinException refused) {
              assertEquals(Code.BAD_ARGUMENT, refused.code());
            } catch (InterruptedException | BrokenBarrierException e) {
              throw new IllegalStateException(e);
            }
          };
      FutureTask<Void> other = new FutureTask<>(takes, null);
      new Thread(other).start();
      takes.run();
      other.get();
      assertTrue(had.size() <= 1, "in round " + round + " both had it");
      had.forEach(WriterLock::close);
    }
  }

  @Test
  void who_comes_after_it_has_ended_waits_for_nothing() {
    take("the first").close();
    assertEquals(0, scratch.list().length, "what it leaves behind");
    long began = System.nanoTime();
    take("the second").close();
    assertTrue(System.nanoTime() - began < TimeUnit.MILLISECONDS.toNanos(WriterLock.SILENT_MILLIS));
  }

  @Test
  void one_that_can_not_be_renewed_once_is_held_as_before() throws Exception {
    CountDownLatch told = new CountDownLatch(1);
    try (WriterLock lock = WriterLock.take(folder(), "the first", told::countDown)) {
      File held = locks()[0];
      int dash = held.getName().lastIndexOf('-') + 1;
      long number = Long.parseLong(held.getName().substring(dash));
      // A file can't be written where a folder is.
      File next = new File(scratch, held.getName().substring(0, dash) + (number + 1));
      assertTrue(new File(next, "in the way").mkdirs());
      lock.renew();
      lock.renew();
      assertNull(lock.loss());
      assertTrue(new File(next, "in the way").delete() && next.delete());
      lock.renew();
      assertNull(lock.loss());
      assertEquals(1, locks().length);
      assertEquals(1, told.getCount(), "it was told that the folder is another's");
    }
    assertEquals(0, scratch.list().length, "what it leaves behind");
  }

  private File[] locks() {
    return scratch.listFiles((folder, name) -> name.startsWith("writer-"));
  }

  @Test
  void what_a_dead_one_has_left_is_taken_over_and_should_it_wake_it_learns_that() throws Exception {
    CountDownLatch told = new CountDownLatch(1);
    WriterLock first = WriterLock.take(folder(), "the first", told::countDown);
    String left = scratch.list((folder, name) -> name.startsWith("writer-"))[0];
    byte[] content = Files.readAllBytes(scratch.toPath().resolve(left));
    first.close();
    // What is there of one that was killed, or is frozen.
    Files.write(scratch.toPath().resolve(left), content);
    try (WriterLock second = take("the second")) {
      assertNull(second.loss());
    }
    WriterLock frozen = WriterLock.take(folder(), "the third", told::countDown);
    for (File file : scratch.listFiles()) {
      assertTrue(file.delete());
    }
    Files.writeString(scratch.toPath().resolve("writer-0-0"), "the fourth");
    assertTrue(told.await(30, TimeUnit.SECONDS), "it goes on as if it had the folder");
    RejoinException fenced = frozen.loss();
    assertEquals(Code.FENCED, fenced.code());
    assertTrue(fenced.text().contains("taken over by the fourth"), fenced.text());
    frozen.close();
    assertTrue(new File(scratch, "writer-0-0").exists(), "another's lock was removed");
  }
}
