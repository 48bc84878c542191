package io.rejoin.flink;

import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/** A rank says that Flink has stopped its task with a savepoint, before all inputs had ended. */
final class Stopped implements CoordinationRequest {
  private static final long serialVersionUID = 1L;

  final int rank;
  final int attempt;

  Stopped(int rank, int attempt) {
    this.rank = rank;
    this.attempt = attempt;
  }
}
