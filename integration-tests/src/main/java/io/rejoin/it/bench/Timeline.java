package io.rejoin.it.bench;

import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * Follows a tracker's events to the job's end, on a thread of its own; each event carries the
 * moment at which it came.
 */
final class Timeline {
  private static final long PERIOD_MILLIS = 100;

  private final Tracker tracker;
  private final Consumer<TrainingEvent> listener;
  private final List<TrainingEvent> events = new ArrayList<>();
  private final Thread thread = new Thread(this::follow, "timeline");
  private volatile boolean over;

  private Timeline(Tracker tracker, Consumer<TrainingEvent> listener) {
    this.tracker = tracker;
    this.listener = listener;
  }

  /** Begins; {@code listener} is told of each event at once. */
  static Timeline of(Tracker tracker, Consumer<TrainingEvent> listener) {
    Timeline timeline = new Timeline(tracker, listener);
    timeline.thread.setDaemon(true);
    timeline.thread.start();
    return timeline;
  }

  private void follow() {
    while (!over) {
      tracker
          .poll(PERIOD_MILLIS)
          .ifPresent(
              event -> {
                synchronized (events) {
                  events.add(event);
                }
                listener.accept(event);
                over =
                    event.kind() == TrainingEvent.Kind.JOB_ENDED
                        || event.kind() == TrainingEvent.Kind.JOB_FAILED;
              });
    }
  }

  /** Waits for the job's end. */
  void await(long seconds) {
    try {
      thread.join(TimeUnit.SECONDS.toMillis(seconds));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    if (!over) {
      over = true;
      throw new IllegalStateException(
          "the job's end did not come within " + seconds + " s; events so far: " + events());
    }
  }

  /** All until now. */
  List<TrainingEvent> events() {
    synchronized (events) {
      return new ArrayList<>(events);
    }
  }

  /** The first event of this kind that is as wanted. */
  TrainingEvent first(TrainingEvent.Kind kind, Predicate<TrainingEvent> wanted) {
    return events().stream()
        .filter(event -> event.kind() == kind && wanted.test(event))
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("no event " + kind + " among " + events()));
  }

  /** Its moment. */
  long at(TrainingEvent.Kind kind, Predicate<TrainingEvent> wanted) {
    return first(kind, wanted).atNanos();
  }
}
