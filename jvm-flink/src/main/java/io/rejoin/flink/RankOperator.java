package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailbox;
import org.apache.flink.util.function.ThrowingRunnable;

/** Flink's side of a rank, whatever it trains; the rank's own thread is a {@link GangThread}. */
abstract class RankOperator<T, M> extends AbstractStreamOperator<M>
    implements OneInputStreamOperator<T, M>, BoundedOneInput {
  private static final long serialVersionUID = 1L;

  private final transient MailboxExecutor mailbox;
  // Set by a mail, so that all models before it have gone downstream.
  private transient boolean over;
  // Set before this rank reports its end, without which none ends.
  private transient volatile boolean isEnding;
  private transient Subtask<?> subtask;
  private transient GangThread rank;
  // The end of event time has come: nothing is to follow it, and models do.
  private transient boolean isEndOfTime;

  RankOperator(StreamOperatorParameters<M> parameters) {
    // One class file for Flink 1.20 and 2.x: only 2.x has a constructor with parameters.
    setup(parameters.getContainingTask(), parameters.getStreamConfig(), parameters.getOutput());
    processingTimeService = parameters.getProcessingTimeService();
    this.mailbox =
        getContainingTask().getMailboxExecutorFactory().createExecutor(config.getChainIndex());
  }

  /** It is open, in this subtask. */
  final void opened(Subtask<?> place) {
    subtask = place;
  }

  /** Where Flink's thread finds what the rank's thread has for it. */
  final MailboxExecutor mailbox() {
    return mailbox;
  }

  /**
   * A model goes downstream; called by the rank's thread.
   *
   * @param taken called by Flink's when it is there
   */
  final void emit(M model, Runnable taken) {
    mail(
        () -> {
          output.collect(new StreamRecord<>(model));
          taken.run();
        },
        "a model goes downstream");
  }

  /** All is trained, and ranks may end from now on; called by the rank's thread. */
  final void ending() {
    isEnding = true;
  }

  /** Training is over, and all is well; called by the rank's thread. */
  final void end() {
    mail(() -> over = true, "training is over");
  }

  /**
   * For Flink's thread. Once Flink has ended the task with a savepoint it reads no mail; what was
   * trained by then is in the savepoint, or is trained again from it.
   */
  private void mail(ThrowingRunnable<? extends Exception> what, String about) {
    try {
      mailbox.execute(what, about);
    } catch (RejectedExecutionException e) {
      LOG.debug("{} has ended, and not done is: {}", getOperatorName(), about);
    }
  }

  /**
   * Training has failed; called by the rank's thread. Flink's may be where it reads no mail: a sink
   * that gives it no room.
   */
  final void fail(Throwable failure) {
    boolean ours = failure instanceof RejoinException;
    getContainingTask()
        .getEnvironment()
        .failExternally(ours ? Repeating.refused((RejoinException) failure) : failure);
  }

  /**
   * Waits on Flink's thread, at the end of the input, for the end of training. No row is under way
   * there, so barriers may pass meanwhile: they are mails of the lowest priority at the source of a
   * chain, which an operator's own executor leaves.
   */
  final void awaitEnd() throws Exception {
    MailboxExecutor all =
        getContainingTask().getMailboxExecutorFactory().createExecutor(TaskMailbox.MIN_PRIORITY);
    while (!over) {
      all.yield();
    }
    if (isEndOfTime) {
      super.processWatermark(Watermark.MAX_WATERMARK);
    }
  }

  /**
   * Flink ends event time before it ends the input, so operators downstream would drop models that
   * come afterwards: that watermark waits for the last one.
   */
  @Override
  public final void processWatermark(Watermark mark) throws Exception {
    if (mark.getTimestamp() == Watermark.MAX_WATERMARK.getTimestamp()) {
      isEndOfTime = true;
    } else {
      super.processWatermark(mark);
    }
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    super.snapshotState(context);
    if (isEnding) {
      RawState.refusePartEnded(getOperatorStateBackend());
    }
  }

  /** The rank's thread begins. */
  final void begin(GangThread thread) throws IOException {
    rank = thread;
    getContainingTask().getCancelables().registerCloseable(thread::cancel);
    thread.start();
  }

  /**
   * Where Flink has ended the task with a savepoint, a rank whose input had ended before would wait
   * for this one for ever; so the coordinator hears of it.
   */
  @Override
  public final void close() throws Exception {
    boolean ends = over || getContainingTask().isCanceled() || getContainingTask().isFailing();
    try {
      if (subtask != null && !ends) {
        subtask.ask(new Stopped(subtask.rank(), subtask.attempt()));
      }
    } finally {
      if (rank != null) {
        rank.close();
      }
    }
    super.close();
  }
}
