package io.rejoin;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * What the native library calls during a call. Nothing is thrown into it: it is kept, and becomes
 * the cause.
 */
final class Callbacks {
  private final Runnable prepare;
  private final Communicator.Fold fold;
  private final Communicator.ObjectFold objectFold;
  private Throwable raised;

  Callbacks(Runnable prepare, Communicator.Fold fold) {
    this.prepare = prepare;
    this.fold = fold;
    objectFold = null;
  }

  Callbacks(Communicator.ObjectFold fold) {
    prepare = null;
    this.fold = null;
    objectFold = fold;
  }

  /**
   * Has the caller fill its input; called by the native library. False when that has thrown: {@link
   * #raised} keeps what.
   */
  boolean prepare() {
    try {
      prepare.run();
      return true;
    } catch (Throwable e) {
      raised = e;
      return false;
    }
  }

  /**
   * Folds {@code other} into {@code accumulator}, whole elements both; called by the native
   * library. False when the caller's function has thrown.
   */
  boolean fold(ByteBuffer accumulator, ByteBuffer other) {
    try {
      ByteBuffer right = other.asReadOnlyBuffer().order(ByteOrder.nativeOrder());
      fold.fold(accumulator.order(ByteOrder.nativeOrder()), right);
      return true;
    } catch (Throwable e) {
      raised = e;
      return false;
    }
  }

  /** Called by the native library; null when it has thrown. */
  byte[] foldObject(byte[] accumulator, byte[] other) {
    try {
      return Objects.requireNonNull(
          objectFold.fold(accumulator, other), "the folded object is null");
    } catch (Throwable e) {
      raised = e;
      return null;
    }
  }

  /** The call's failure, with what a callback has thrown as its cause. */
  RejoinException failure(RejoinException failure) {
    return raised == null ? failure : new RejoinException(failure.code(), failure.text(), raised);
  }
}
