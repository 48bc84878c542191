package io.rejoin.spark;

import io.rejoin.TrainingEvent;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.function.Consumer;

/** What ranks in Python workers have printed, until the driver's Python takes it. */
public final class PythonOutput implements Consumer<TrainingEvent> {
  private static final int MOST = 10_000;

  private final Queue<String> texts = new ArrayDeque<>();
  private long leftOut;
  private Thread call;
  private boolean isInterrupted;

  @Override
  public synchronized void accept(TrainingEvent event) {
    if (event.kind() != TrainingEvent.Kind.PRINTED) {
      return;
    }
    if (texts.size() == MOST) {
      texts.remove();
      leftOut++;
    }
    texts.add(event.sentence("[rank {rank}] {text}"));
  }

  /** The call that this belongs to runs in this thread, until it is told null. */
  synchronized void runsIn(Thread thread) {
    call = thread;
    if (call != null && isInterrupted) {
      call.interrupt();
    }
  }

  /**
   * Ends the call, wherever it waits, or as soon as it begins; CANCELLED is thrown there. For good.
   */
  public synchronized void interrupt() {
    isInterrupted = true;
    if (call != null) {
      call.interrupt();
    }
  }

  /** All that came since it was asked last, a text on a line; empty for nothing. */
  public synchronized String take() {
    StringBuilder all = new StringBuilder();
    if (leftOut > 0) {
      all.append('(').append(leftOut).append(" texts left out)\n");
    }
    texts.forEach(text -> all.append(text).append('\n'));
    texts.clear();
    leftOut = 0;
    return all.toString();
  }
}
