package io.rejoin;

import java.nio.file.Path;
import java.util.Optional;

/** A driver with the tracker of a job of two ranks, to be killed. */
public final class DriverProgram {
  private DriverProgram() {}

  /** The folder of state, the address, and the port; 0 is any. */
  public static void main(String[] arguments) throws Exception {
    Tracker.Settings settings =
        new Tracker.Settings(2, arguments[1])
            .port(Integer.parseInt(arguments[2]))
            .state(Path.of(arguments[0]));
    try (Tracker tracker = Tracker.open(settings)) {
      System.out.println("life " + tracker.life() + " at " + tracker.address());
      while (true) {
        Optional<TrainingEvent> event = tracker.poll(60_000);
        if (event.map(TrainingEvent::kind).equals(Optional.of(TrainingEvent.Kind.JOB_ENDED))) {
          System.out.println("result " + tracker.result()[0]);
          // Until the ranks' launcher has heard of the end.
          while (System.in.read() >= 0) {}
          return;
        }
      }
    }
  }
}
