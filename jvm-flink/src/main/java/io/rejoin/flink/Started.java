package io.rejoin.flink;

import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/** A rank says that it has loaded what it starts from, and holds the gang's state from now on. */
final class Started implements CoordinationRequest {
  private static final long serialVersionUID = 1L;

  final int rank;
  final int attempt;
  final int gang;

  Started(int rank, int attempt, int gang) {
    this.rank = rank;
    this.attempt = attempt;
    this.gang = gang;
  }
}
