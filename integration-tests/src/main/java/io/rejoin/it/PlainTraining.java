package io.rejoin.it;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.IntConsumer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * Logistic regression by gradient descent as one writes it in plain Spark: the model is at the
 * driver, each round is a job, and what an executor had is computed again by its tasks alone.
 */
final class PlainTraining {
  private static final double RATE = 0.1;

  private final JavaRDD<double[]> examples;
  private final long rows;
  private final int features;

  /** Reads the rows, each with its label behind its features, into the executors' memory. */
  PlainTraining(Dataset<Row> data, int workers) {
    examples =
        data.select("features", "label")
            .repartition(workers)
            .toJavaRDD()
            .map(PlainTraining::example)
            .cache();
    rows = examples.count();
    features = examples.first().length - 1;
  }

  private static double[] example(Row row) {
    double[] values = row.<Vector>getAs(0).toArray();
    double[] example = Arrays.copyOf(values, values.length + 1);
    example[values.length] = row.getDouble(1);
    return example;
  }

  /**
   * The model's bytes.
   *
   * @param throwing the task that throws once, in the round of the order; null for none
   * @param hears the number of each round when it is over
   */
  byte[] train(int rounds, KillOrder throwing, IntConsumer hears) {
    double[] model = new double[features];
    for (int round = 0; round < rounds; round++) {
      int victim = throwing != null && throwing.round() == round ? throwing.rank() : -1;
      double[] gradient = gradient(model, victim);
      for (int feature = 0; feature < features; feature++) {
        model[feature] -= RATE * gradient[feature] / rows;
      }
      hears.accept(round);
    }
    examples.unpersist();
    ByteBuffer bytes = ByteBuffer.allocate(Double.BYTES * features);
    bytes.asDoubleBuffer().put(model);
    return bytes.array();
  }

  private double[] gradient(double[] model, int victim) {
    return examples.treeAggregate(
        new double[features],
        (sums, example) -> {
          TaskContext task = TaskContext.get();
          if (task.partitionId() == victim && task.attemptNumber() == 0) {
            throw new IllegalStateException("this task throws once, as it was told");
          }
          double sum = 0;
          for (int feature = 0; feature < sums.length; feature++) {
            sum += model[feature] * example[feature];
          }
          double error = 1 / (1 + Math.exp(-sum)) - example[sums.length];
          for (int feature = 0; feature < sums.length; feature++) {
            sums[feature] += error * example[feature];
          }
          return sums;
        },
        (one, other) -> {
          for (int feature = 0; feature < one.length; feature++) {
            one[feature] += other[feature];
          }
          return one;
        });
  }
}
