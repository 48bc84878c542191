package io.rejoin.flink;

import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/** A rank whose input waits for room asks whether Flink is about to stop the job. */
final class Full implements CoordinationRequest {
  private static final long serialVersionUID = 1L;
}
