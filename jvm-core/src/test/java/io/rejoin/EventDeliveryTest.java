package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class EventDeliveryTest {
  private static final long LIMIT_MILLIS = 30_000;

  private final List<Long> had = new CopyOnWriteArrayList<>();

  private static TrainingEvent event(long number) {
    return new TrainingEvent(new String[] {"Printed", "text", "" + number}, 0);
  }

  @Test
  void a_listener_that_lacks_a_class_for_one_event_gets_the_next_one() throws Exception {
    EventDelivery delivery =
        new EventDelivery(
            "lacks a class",
            event -> {
              had.add(event.number("text"));
              throw new NoClassDefFoundError("what the user has forgotten");
            });
    delivery.deliver(event(1));
    delivery.deliver(event(2));
    delivery.mark().await(LIMIT_MILLIS);
    assertEquals(List.of(1L, 2L), had);
    delivery.close();
  }

  @Test
  void a_listener_that_hangs_loses_events_instead_of_taking_the_drivers_memory() throws Exception {
    CountDownLatch first = new CountDownLatch(1);
    CountDownLatch hangs = new CountDownLatch(1);
    EventDelivery delivery =
        new EventDelivery(
            "hangs",
            event -> {
              first.countDown();
              await(hangs);
              had.add(event.number("text"));
            });
    delivery.deliver(event(-1));
    await(first);
    int all = 2 * EventDelivery.MOST_WAITING;
    for (int i = 0; i < all; i++) {
      delivery.deliver(event(i));
    }
    hangs.countDown();
    delivery.mark().await(LIMIT_MILLIS);
    assertEquals(1 + EventDelivery.MOST_WAITING, had.size());
    delivery.deliver(event(all));
    delivery.mark().await(LIMIT_MILLIS);
    assertEquals(all, had.get(had.size() - 1), "it goes on when it can follow again");
    delivery.close();
  }

  @Test
  void a_listener_that_hangs_is_no_reason_to_find_another_one_slow() throws Exception {
    CountDownLatch hangs = new CountDownLatch(1);
    EventDelivery slow = new EventDelivery("hangs", event -> await(hangs));
    EventDelivery idle = new EventDelivery("idle", event -> had.add(event.number("text")));
    slow.deliver(event(1));
    idle.deliver(event(1));
    EventDelivery.Mark behind = slow.mark();
    EventDelivery.Mark other = idle.mark();
    assertFalse(behind.await(2_000));
    assertTrue(other.await(0), "it has had all that came before");
    hangs.countDown();
    slow.close();
    idle.close();
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(LIMIT_MILLIS, TimeUnit.MILLISECONDS));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
