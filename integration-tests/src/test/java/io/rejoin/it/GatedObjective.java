package io.rejoin.it;

import java.util.Arrays;
import java.util.List;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;

/**
 * The logistic objective with a second derivative of 1 for every row, so that a tree says how many
 * rows it was made of. It waits at gates: before a task asks it for the n-th time at gate n.
 */
final class GatedObjective implements ObjectiveTrait {
  private static final long serialVersionUID = 1L;

  private final LogisticObjective logistic = new LogisticObjective(0, 0, 0);
  private final FileGate gate;
  private final List<Integer> gates;
  private transient int calls;

  /** {@code gates}: those that there are. */
  GatedObjective(FileGate gate, Integer... gates) {
    this.gate = gate;
    this.gates = List.of(gates);
  }

  @Override
  public List<float[]> getGradient(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    int call = calls++;
    if (gates.contains(call)) {
      gate.pass(call);
    }
    float[] gradients = logistic.getGradient(predictions, rows).get(0);
    float[] ones = new float[gradients.length];
    Arrays.fill(ones, 1);
    return List.of(gradients, ones);
  }

  @Override
  public scala.collection.immutable.List<float[]> getGradient(float[][] predictions, DMatrix rows) {
    throw new UnsupportedOperationException("the training loop asks in Java");
  }
}
