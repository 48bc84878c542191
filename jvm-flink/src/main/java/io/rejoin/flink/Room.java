package io.rejoin.flink;

import java.io.IOException;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where a rank's input waits for room, on Flink's thread; no barrier passes there. When a job is
 * stopped with a savepoint, an input that has come to it gives no more rows, and a rank that is
 * full may be waiting for just those: it would never come to the savepoint. So who waits asks the
 * coordinator whether any rank has come to such a savepoint, and lets rows in without room then.
 */
final class Room {
  private static final Logger LOG = LoggerFactory.getLogger(Room.class);
  private static final long ASK_MILLIS = 500;

  private final Subtask<?> subtask;
  private final RowBuffer<?> rows;
  private final MailboxExecutor mailbox;
  private final ProcessingTimeService time;
  // Whether the coordinator is asked now, or is going to be.
  private boolean asks;
  private boolean stopping;

  Room(Subtask<?> subtask, RowBuffer<?> rows, MailboxExecutor mailbox, ProcessingTimeService time) {
    this.subtask = subtask;
    this.rows = rows;
    this.mailbox = mailbox;
    this.time = time;
  }

  /** Waits until there is room, or none is needed. */
  void await() throws InterruptedException {
    while (rows.isFull() && !stopping) {
      if (!asks) {
        asks = true;
        askLater();
      }
      mailbox.yield();
    }
  }

  private void askLater() {
    time.registerTimer(time.getCurrentProcessingTime() + ASK_MILLIS, now -> ask());
  }

  private void ask() throws IOException {
    if (rows.isFull()) {
      subtask.ask(new Full(), this::answered);
    } else {
      asks = false;
      stopping = false;
    }
  }

  private void answered(Answer answer) {
    try {
      mailbox.execute(
          () -> {
            // Without an answer nothing is known, and it is asked again.
            stopping = answer != null && answer.kind == Answer.Kind.STOPPING;
            askLater();
          },
          "the coordinator knows whether the job is about to be stopped");
    } catch (RejectedExecutionException e) {
      LOG.debug("the task of rank {} has ended", subtask.rank());
    }
  }
}
