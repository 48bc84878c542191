package io.rejoin.flink;

import io.rejoin.GangTask;
import io.rejoin.ProcessAgent;
import io.rejoin.RejoinException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * A rank's own thread, which isn't Flink's: it finds the rank's gang and trains in it, and in the
 * next one where a gang ends before its time, until all is trained or Flink ends the task.
 */
abstract class GangThread {
  private static final Logger LOG = LoggerFactory.getLogger(GangThread.class);
  private static final long FIRST_PAUSE_MILLIS = 10;
  private static final long LONGEST_PAUSE_MILLIS = 200;
  private static final long REPORT_SECONDS = 10;
  private static final long CLOSE_MILLIS = 10_000;
  // By which a pattern of the logs finds the rank in the lines of a user's function.
  private static final String RANK = "rejoin.rank";

  private final Subtask<?> subtask;
  private final Thread thread;

  GangThread(Subtask<?> subtask, ClassLoader loader) {
    this.subtask = subtask;
    this.thread = new Thread(this::run, "rejoin-rank-" + subtask.rank());
    this.thread.setDaemon(true);
    this.thread.setContextClassLoader(loader);
  }

  /** What this thread does, from its start to the end of training. */
  abstract void work() throws Exception;

  /** Ends what {@link #work} waits for; from any thread, at any time, and more than once. */
  abstract void release();

  /** What the rank has, when it asks for a gang; {@code ended} as in {@link Offer#ended}. */
  abstract Offer offer(int ended);

  /** A rank's time in one gang, in the process's agent. */
  interface Stay<A extends ProcessAgent> {
    /** Whether all is trained, and nobody has to be asked any more. */
    boolean train(Answer gang, A agent) throws Exception;
  }

  final void start() {
    thread.start();
  }

  /** Flink wants the end: what is waited for ends at once. From any thread; doesn't wait. */
  final void cancel() {
    subtask.cancel();
    release();
    thread.interrupt();
  }

  /** The same, and waits for the thread; code that goes on for long is left behind. */
  final void close() throws InterruptedException {
    cancel();
    thread.join(CLOSE_MILLIS);
    if (thread.isAlive()) {
      LOG.warn("{}: training goes on {} ms after the task's end", this, CLOSE_MILLIS);
    }
  }

  private void run() {
    MDC.put(RANK, String.valueOf(subtask.rank()));
    Throwable failure = null;
    try {
      work();
    } catch (Throwable e) {
      failure = e;
    }
    if (isCancelled()) {
      return;
    }
    if (failure == null) {
      subtask.operator().end();
    } else {
      LOG.error("{}: training failed", this, failure);
      subtask.operator().fail(failure);
    }
  }

  final boolean isCancelled() {
    return subtask.cancelled().isPresent();
  }

  /** How a rank's way from gang to gang has ended. */
  static final class End {
    /** Whether Flink stops the job with a savepoint, before all is trained. */
    final boolean isStop;

    /** The result, where it was known before this rank had come; else null. */
    final byte[] result;

    private End(boolean isStop, byte[] result) {
      this.isStop = isStop;
      this.result = result;
    }
  }

  /** Stays in one gang after the other until all is trained. */
  final <A extends ProcessAgent> End stay(Class<A> kind, GangTask.Opener<A> opener, Stay<A> stay)
      throws Exception {
    int ended = 0;
    String misuse = "";
    while (true) {
      Offer offer = offer(ended).misuse(misuse);
      Answer gang = ask(offer);
      if (gang.kind == Answer.Kind.OVER) {
        return new End(false, whole(gang, offer));
      }
      if (gang.kind == Answer.Kind.STOPPED) {
        LOG.info("{}: Flink stops the job with a savepoint", this);
        return new End(true, null);
      }
      Outcome outcome = new Outcome();
      gang.task.run(subtask, kind, opener, agent -> outcome.of(stay, gang, agent));
      if (outcome.failure != null && (isCancelled() || !endsGang(outcome.failure))) {
        // What a cancelled rank sees is its own end, and nobody else's.
        throw outcome.failure;
      }
      if (outcome.failure != null) {
        LOG.info("{}: gang {} is over: {}", this, gang.gang, outcome.failure.getMessage());
        ended = gang.gang;
        misuse = misuse(outcome.failure);
      } else if (outcome.done) {
        return new End(false, null);
      } else {
        // All is trained; the coordinator is about to hear of it.
        Thread.sleep(FIRST_PAUSE_MILLIS);
      }
    }
  }

  /** Failures are kept from the gang's task, which would wait for a driver to end the job. */
  private static final class Outcome {
    private boolean done;
    private Exception failure;

    <A extends ProcessAgent> void of(Stay<A> stay, Answer gang, A agent) {
      try {
        done = stay.train(gang, agent);
      } catch (Exception e) {
        failure = e;
      }
    }
  }

  /** Whether the gang has ended, and another one may begin with what this rank has. */
  private static boolean endsGang(Exception failure) {
    RejoinException.Code code =
        failure instanceof RejoinException ? ((RejoinException) failure).code() : null;
    return code == RejoinException.Code.CANCELLED
        || code == RejoinException.Code.UNRECOVERABLE
        || code == RejoinException.Code.BAD_STATE;
  }

  /** An agent that is over says so with BAD_STATE, and so does a call that can't be made. */
  private static String misuse(Exception failure) {
    RejoinException reason = (RejoinException) failure;
    return reason.code() == RejoinException.Code.BAD_STATE ? reason.text() : "";
  }

  /** Asks the coordinator until there is a gang, or all is over. */
  private Answer ask(Offer offer) throws IOException, InterruptedException {
    long pause = FIRST_PAUSE_MILLIS;
    long reported = System.nanoTime();
    while (true) {
      Answer answer = subtask.ask(offer);
      switch (answer.kind) {
        case FAIL:
          throw new RejoinException(answer.code, answer.text);
        case WAIT:
          if (System.nanoTime() - reported > TimeUnit.SECONDS.toNanos(REPORT_SECONDS)) {
            reported = System.nanoTime();
            LOG.warn("{} waits: {}", this, answer.text);
          }
          Thread.sleep(pause);
          pause = Math.min(2 * pause, LONGEST_PAUSE_MILLIS);
          break;
        default:
          return answer;
      }
    }
  }

  /** The result comes in parts, since Flink limits what one answer may be. */
  private byte[] whole(Answer first, Offer offer) throws IOException, InterruptedException {
    ByteArrayOutputStream result = new ByteArrayOutputStream(first.resultBytes);
    Answer next = first;
    while (true) {
      result.write(next.result);
      if (result.size() == first.resultBytes) {
        return result.toByteArray();
      }
      next = ask(offer.resultFrom(result.size()));
      if (next.kind != Answer.Kind.OVER || next.resultBytes != first.resultBytes) {
        throw new IOException("the result changed while it was read; Flink tries again");
      }
    }
  }

  @Override
  public String toString() {
    return "rank "
        + subtask.rank()
        + " of "
        + subtask.world()
        + " (attempt "
        + subtask.attempt()
        + ")";
  }
}
