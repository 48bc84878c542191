package io.rejoin.flink;

import io.rejoin.RejoinException;
import org.apache.flink.runtime.execution.SuppressRestartsException;

/** Flink tries a task again; where that would only fail the same way, it is told not to. */
final class Repeating {
  private Repeating() {}

  /** The failure as a task has to throw it. */
  static RuntimeException refused(RejoinException failure) {
    return failure.code().willRepeat() ? new SuppressRestartsException(failure) : failure;
  }
}
