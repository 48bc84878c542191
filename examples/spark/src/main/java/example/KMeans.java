package example;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.spark.RejoinSpark;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * k-means on a data frame of numbers: every rank assigns its own rows, one allreduce an iteration
 * adds up what all have found. Kill any executor at any moment: its task comes back with the last
 * centers, and the result is the same.
 */
public final class KMeans {
  private static final int CLUSTERS = 8;
  private static final int ITERATIONS = 25;

  /** Arguments: a CSV file with a header, and the number of workers. */
  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().appName("k-means").getOrCreate();
    double[] centers =
        RejoinSpark.train(
            spark.read().option("header", true).option("inferSchema", true).csv(arguments[0]),
            Integer.parseInt(arguments[1]),
            KMeans::train);
    System.out.println(Arrays.toString(centers));
    spark.stop();
  }

  /** What each rank does; one center after the other comes back. */
  public static double[] train(Communicator ranks, Iterable<Row> rows) {
    List<double[]> points = new ArrayList<>();
    rows.forEach(row -> points.add(numbers(row)));
    Communicator.Loaded start = ranks.load();
    double[] centers = start.model().map(KMeans::numbers).orElseGet(() -> apart(points));
    if (start.version() == 0) {
      ranks.broadcast(centers, 0);
    }
    int columns = centers.length / CLUSTERS;
    for (int iteration = start.version(); iteration < ITERATIONS; iteration++) {
      double[] sums = new double[centers.length + CLUSTERS]; // of each cluster's rows; how many
      for (double[] point : points) {
        int nearest = nearest(point, centers);
        for (int column = 0; column < columns; column++) {
          sums[nearest * columns + column] += point[column];
        }
        sums[centers.length + nearest]++;
      }
      ranks.allreduce(sums, Reduction.SUM);
      for (int at = 0; at < centers.length; at++) {
        double count = sums[centers.length + at / columns];
        centers[at] = count > 0 ? sums[at] / count : centers[at];
      }
      ranks.checkpoint(bytes(centers));
    }
    return centers;
  }

  private static int nearest(double[] point, double[] centers) {
    int nearest = 0;
    double least = Double.POSITIVE_INFINITY;
    for (int cluster = 0; cluster < CLUSTERS; cluster++) {
      double distance = 0;
      for (int column = 0; column < point.length; column++) {
        double apart = point[column] - centers[cluster * point.length + column];
        distance += apart * apart;
      }
      if (distance < least) {
        least = distance;
        nearest = cluster;
      }
    }
    return nearest;
  }

  /** Points that are far from each other in the list. */
  private static double[] apart(List<double[]> points) {
    int columns = points.get(0).length;
    int step = points.size() / CLUSTERS;
    double[] flat = new double[CLUSTERS * columns];
    for (int cluster = 0; cluster < CLUSTERS; cluster++) {
      System.arraycopy(points.get(cluster * step), 0, flat, cluster * columns, columns);
    }
    return flat;
  }

  private static double[] numbers(Row row) {
    double[] numbers = new double[row.size()];
    for (int column = 0; column < numbers.length; column++) {
      numbers[column] = ((Number) row.get(column)).doubleValue();
    }
    return numbers;
  }

  private static double[] numbers(byte[] bytes) {
    DoubleBuffer buffer = ByteBuffer.wrap(bytes).asDoubleBuffer();
    double[] numbers = new double[buffer.remaining()];
    buffer.get(numbers);
    return numbers;
  }

  private static byte[] bytes(double[] numbers) {
    ByteBuffer bytes = ByteBuffer.allocate(Double.BYTES * numbers.length);
    bytes.asDoubleBuffer().put(numbers);
    return bytes.array();
  }
}
