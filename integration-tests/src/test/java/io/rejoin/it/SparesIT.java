package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Three ranks and one spare on four executors of one slot each: no slot is free for a retry, which
 * has to wait for another executor.
 */
@DisplayName("a spare takes over a rank whose executor dies or freezes, before Spark's retry")
class SparesIT {
  private static final Duration LIMIT = Duration.ofSeconds(150);
  private static final int WORKERS = 3;
  private static final int SPARE = 3;

  /**
   * Spark's Worker kills it 10 s after the driver has asked for that. Until then it holds a copy of
   * rows that the spare reads, and doesn't answer: the signal has to find the process still there.
   */
  @Test
  void the_executor_is_frozen_and_still_is_when_its_rank_works_elsewhere() throws Exception {
    Calm calm = undisturbed();
    RejoinRun run = run(5).fault(Fault.of(1).version(calm.middle(), calm.inside()).stop());
    new FaultCase.ByEvent(run).when(SparesIT::worksAgain, 1, "CONT");
    takesOver(run, calm);
  }

  @Test
  void the_executor_is_killed_and_later_the_spare_that_took_over() throws Exception {
    Calm calm = undisturbed();
    // The job doesn't wait for its spare. So the victim is stopped in that round until it is there.
    RejoinRun run =
        run(60)
            .fault(Fault.of(1).version(calm.middle(), calm.inside()).stop())
            .fault(Fault.of(1).incarnation(1).version(calm.last(), calm.inside()).kill());
    new FaultCase.ByEvent(run).when(new Both(), 1, "KILL");
    takesOver(run, calm);
    assertTrue(run.events().stream().anyMatch(event -> isBack(event, 2)), () -> "" + run.events());
  }

  /** The rank goes on in the spare, and the model is the same. */
  private static void takesOver(RejoinRun run, Calm calm) throws Exception {
    train(run, calm);
    List<TrainingEvent> events = run.events();
    TrainingEvent stood = first(events, event -> standsBy(event, SPARE));
    TrainingEvent took = first(events, event -> event.kind() == Kind.SPARE_TOOK);
    assertEquals(1, took.number("rank"));
    assertEquals(SPARE, took.number("index"));
    assertEquals(stood.text("executor"), took.text("executor"));
    TrainingEvent back = first(events, SparesIT::isTaken);
    assertEquals(stood.text("executor"), back.text("executor"));
    // Its own task is tried again later, and is the next spare.
    List<TrainingEvent> before = events.subList(0, events.indexOf(back));
    assertFalse(before.stream().anyMatch(event -> standsBy(event, 1)), () -> "events: " + events);
    TrainingEvent caughtUp = first(events, SparesIT::worksAgain);
    TrainingEvent lost = first(events, event -> event.kind() == Kind.RANK_LOST);
    System.out.println(
        "from the loss to the spare's join "
            + millis(lost, back)
            + " ms, until it works with the others again "
            + millis(lost, caughtUp)
            + " ms");
  }

  private static void train(RejoinRun run, Calm calm) throws Exception {
    Outcome outcome =
        Deadline.within(LIMIT, "a training with a spare", Sessions.cluster(), run::train);
    assertNull(outcome.trouble(), () -> "events: " + run.events());
    assertEquals(calm.digest(), outcome.digest(), () -> "events: " + run.events());
    assertTrue(run.signals(), () -> "the signal was not sent: " + run.events());
  }

  private static Calm undisturbed() throws Exception {
    return FaultsIT.undisturbed(session(), Recipe.BINARY, Variation.DEFAULT, WORKERS);
  }

  /** With one spare, on a tracker that declares a process lost after so many silent seconds. */
  private static RejoinRun run(int lostAfter) {
    return Calm.run(session(), Recipe.BINARY, WORKERS, FaultCase.ROUNDS)
        .setting("spark.rejoin.lost.after", lostAfter + "s")
        .setting("spark.rejoin.spares", "1");
  }

  /** The victim is stopped, and the spare is there. */
  private static final class Both implements Predicate<TrainingEvent> {
    private boolean isStopped;
    private boolean isThere;

    @Override
    public boolean test(TrainingEvent event) {
      isStopped |= event.kind() == Kind.FAULT_FIRED;
      isThere |= standsBy(event, SPARE);
      return isStopped && isThere;
    }
  }

  private static SparkSession session() {
    return Sessions.of(Sessions.Shape.SINGLE, Map.of());
  }

  private static boolean standsBy(TrainingEvent event, int index) {
    return event.kind() == Kind.SPARE_STANDS_BY && event.number("index") == index;
  }

  private static boolean isTaken(TrainingEvent event) {
    return isBack(event, 1);
  }

  private static boolean worksAgain(TrainingEvent event) {
    return event.kind() == Kind.CAUGHT_UP && event.number("rank") == 1;
  }

  private static boolean isBack(TrainingEvent event, int incarnation) {
    return event.kind() == Kind.RANK_JOINED
        && event.number("rank") == 1
        && event.number("incarnation") == incarnation;
  }

  private static TrainingEvent first(List<TrainingEvent> events, Predicate<TrainingEvent> which) {
    return events.stream()
        .filter(which)
        .findFirst()
        .orElseThrow(() -> new AssertionError("it is missing from " + events));
  }

  private static long millis(TrainingEvent from, TrainingEvent to) {
    return (to.atNanos() - from.atNanos()) / 1_000_000;
  }
}
