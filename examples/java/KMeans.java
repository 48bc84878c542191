import io.rejoin.CallOptions;
import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * k-means over the RAND data: every rank assigns its own rows, one allreduce an iteration adds up what all have found.
 *
 * <pre>rejoin run -n 4 --restart -- java -cp jvm-core/build/libs/* examples/java/KMeans.java</pre>
 *
 * Kill any rank at any moment: it comes back, gets the last centers and the sums that it missed,
 * and the digest is the same.
 */
public final class KMeans {
  private static final int COLUMNS = 10;
  private static final int CLUSTERS = 8;
  private static final int ITERATIONS = 25;

  public static void main(String[] arguments) throws IOException {
    try (Communicator ranks = Communicator.launched("k-means").orElse(null)) {
      if (ranks == null) {
        return; // the job was over when this process came
      }
      byte[] centers = bytes(train(ranks, part(ranks, arguments)));
      ranks.finish(centers);
      System.out.println("digest " + Communicator.digest(centers));
    }
  }

  /** This rank's part of the RAND Health Insurance Experiment (20,190 person-years, 10 columns). */
  private static double[][] part(Communicator ranks, String[] arguments) throws IOException {
    String path = arguments.length > 0 ? arguments[0] : "integration-tests/data/randhie.csv";
    List<String> lines = Files.readAllLines(Path.of(path));
    int all = lines.size() - 1; // the first one has the names
    int first = (int) ((long) all * ranks.rank() / ranks.world());
    int end = (int) ((long) all * (ranks.rank() + 1) / ranks.world());
    return lines.subList(1 + first, 1 + end).stream()
        .map(line -> Arrays.stream(line.split(",")).mapToDouble(Double::parseDouble).toArray())
        .toArray(double[][]::new);
  }

  /** Gives every column mean 0 and deviation 1, over the rows of all ranks. */
  private static void standardize(Communicator ranks, double[][] table) {
    // For each column sum and sum of squares, and at the end the number of rows.
    double[] sums = new double[2 * COLUMNS + 1];
    for (double[] row : table) {
      for (int column = 0; column < COLUMNS; column++) {
        sums[column] += row[column];
        sums[COLUMNS + column] += row[column] * row[column];
      }
      sums[2 * COLUMNS] += 1;
    }
    // A sum that is made once in the life of the job: who restarts is handed the recorded one.
    ranks.allreduce(sums, Reduction.SUM, CallOptions.NONE.boot());
    double count = sums[2 * COLUMNS];
    for (double[] row : table) {
      for (int column = 0; column < COLUMNS; column++) {
        double mean = sums[column] / count;
        row[column] = (row[column] - mean) / Math.sqrt(sums[COLUMNS + column] / count - mean * mean);
      }
    }
  }

  private static double distance(double[] row, double[] centers, int cluster) {
    double sum = 0;
    for (int column = 0; column < COLUMNS; column++) {
      double apart = row[column] - centers[cluster * COLUMNS + column];
      sum += apart * apart;
    }
    return sum;
  }

  private static double[] train(Communicator ranks, double[][] table) {
    standardize(ranks, table);
    Communicator.Loaded start = ranks.load();
    double[] centers = new double[CLUSTERS * COLUMNS];
    if (start.version() > 0) {
      numbers(start.model().orElseThrow()).get(centers);
    } else { // rows of rank 0, far from each other in the file
      for (int cluster = 0; cluster < CLUSTERS; cluster++) {
        System.arraycopy(table[cluster * (table.length / CLUSTERS)], 0, centers, cluster * COLUMNS, COLUMNS);
      }
      ranks.broadcast(centers, 0);
    }
    for (int iteration = start.version(); iteration < ITERATIONS; iteration++) {
      // For each cluster the sum of its rows, then the numbers of rows, then the sum of all distances.
      double[] sums = new double[CLUSTERS * COLUMNS + CLUSTERS + 1];
      for (double[] row : table) {
        int nearest = 0;
        double least = Double.POSITIVE_INFINITY;
        for (int cluster = 0; cluster < CLUSTERS; cluster++) {
          double distance = distance(row, centers, cluster);
          if (distance < least) {
            least = distance;
            nearest = cluster;
          }
        }
        for (int column = 0; column < COLUMNS; column++) {
          sums[nearest * COLUMNS + column] += row[column];
        }
        sums[CLUSTERS * COLUMNS + nearest] += 1;
        sums[sums.length - 1] += least;
      }
      ranks.allreduce(sums, Reduction.SUM);
      for (int at = 0; at < centers.length; at++) {
        double count = sums[CLUSTERS * COLUMNS + at / COLUMNS];
        centers[at] = count > 0 ? sums[at] / count : centers[at];
      }
      ranks.checkpoint(bytes(centers));
      if (ranks.rank() == 0) {
        System.out.printf("iteration %d: inertia %.3f%n", iteration + 1, sums[sums.length - 1]);
      }
    }
    return centers;
  }

  private static byte[] bytes(double[] numbers) {
    ByteBuffer bytes = ByteBuffer.allocate(8 * numbers.length).order(ByteOrder.nativeOrder());
    bytes.asDoubleBuffer().put(numbers);
    return bytes.array();
  }

  private static DoubleBuffer numbers(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).asDoubleBuffer();
  }
}
