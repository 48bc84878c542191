package io.rejoin.flink;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.streaming.api.transformations.WithBoundedness;

/** What a trainer's stream is made of. */
final class Inputs {
  private final List<Transformation<?>> all;

  private Inputs(List<Transformation<?>> all) {
    this.all = all;
  }

  /** A stream and all that it comes from. */
  static Inputs of(Transformation<?> stream) {
    return new Inputs(
        stream.getTransitivePredecessors().stream()
            .map(one -> (Transformation<?>) one)
            .collect(Collectors.toList()));
  }

  /** Whether all sources end. */
  boolean areBounded() {
    return all.stream()
        .filter(one -> one instanceof WithBoundedness)
        .allMatch(one -> ((WithBoundedness) one).getBoundedness() == Boundedness.BOUNDED);
  }
}
