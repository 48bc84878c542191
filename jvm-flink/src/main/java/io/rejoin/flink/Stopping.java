package io.rejoin.flink;

import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/**
 * A rank says that its input gives no more rows: it has come to the savepoint that stops the job.
 */
final class Stopping implements CoordinationRequest {
  private static final long serialVersionUID = 1L;

  final int rank;
  final int attempt;

  Stopping(int rank, int attempt) {
    this.rank = rank;
    this.attempt = attempt;
  }
}
