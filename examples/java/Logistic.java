import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/**
 * Logistic regression by L-BFGS over the RAND data: who sees a doctor at all? One allreduce for each look at the loss.
 *
 * <pre>rejoin run -n 4 --restart -- java -cp jvm-core/build/libs/* examples/java/Logistic.java</pre>
 *
 * Kill any rank at any moment: it comes back at the last iteration's state, and the digest is the
 * same, which is the other languages', too.
 */
public final class Logistic {
  private static final int WEIGHTS = 10; // of nine columns and a constant
  private static final int MEMORY = 6; // pairs that stand for the curvature
  private static final int ITERATIONS = 30;
  private static final double PENALTY = 1e-3; // on the weights' squares
  private static final double[] SCALES = {1, 4.6, 1, 7, 1, 1, 15, 1, 1, 1};

  private final Communicator ranks;
  private final double[][] table;

  // Between two iterations. As numbers it is the model that is handed to the checkpoint.
  private double loss;
  private double[] weights = new double[WEIGHTS];
  private double[] gradient = new double[WEIGHTS];
  private final Deque<double[][]> pairs = new ArrayDeque<>(); // newest last: step, change of the gradient

  private Logistic(Communicator ranks, String[] arguments) throws IOException {
    this.ranks = ranks;
    String path = arguments.length > 0 ? arguments[0] : "integration-tests/data/randhie.csv";
    List<String> lines = Files.readAllLines(Path.of(path));
    int all = lines.size() - 1; // the first one has the names
    int first = (int) ((long) all * ranks.rank() / ranks.world());
    int end = (int) ((long) all * (ranks.rank() + 1) / ranks.world());
    table =
        lines.subList(1 + first, 1 + end).stream()
            .map(line -> Arrays.stream(line.split(",")).mapToDouble(Double::parseDouble).toArray())
            .toArray(double[][]::new);
    for (double[] row : table) { // columns of about the same size, by numbers that are the same everywhere
      for (int column = 1; column < WEIGHTS; column++) {
        row[column] /= SCALES[column];
      }
    }
  }

  public static void main(String[] arguments) throws IOException {
    try (Communicator ranks = Communicator.launched("logistic regression").orElse(null)) {
      if (ranks == null) {
        return; // the job was over when this process came
      }
      Logistic regression = new Logistic(ranks, arguments);
      regression.train();
      ByteBuffer model = ByteBuffer.allocate(8 * WEIGHTS).order(ByteOrder.nativeOrder());
      model.asDoubleBuffer().put(regression.weights);
      ranks.finish(model.array());
      System.out.println("digest " + Communicator.digest(model.array()));
    }
  }

  private void train() {
    Communicator.Loaded start = ranks.load();
    if (start.version() > 0) {
      restore(start.model().orElseThrow());
    } else {
      loss = evaluate(weights, gradient);
    }
    for (int iteration = start.version(); iteration < ITERATIONS; iteration++) {
      improve();
      ranks.checkpoint(state());
      if (ranks.rank() == 0) {
        System.out.printf("iteration %d: loss %.6f%n", iteration + 1, loss);
      }
    }
  }

  private byte[] state() {
    ByteBuffer bytes = ByteBuffer.allocate(8 * (1 + 2 * WEIGHTS * (1 + pairs.size()))).order(ByteOrder.nativeOrder());
    DoubleBuffer numbers = bytes.asDoubleBuffer().put(loss).put(weights).put(gradient);
    pairs.forEach(pair -> numbers.put(pair[0]).put(pair[1]));
    return bytes.array();
  }

  private void restore(byte[] state) {
    DoubleBuffer numbers = ByteBuffer.wrap(state).order(ByteOrder.nativeOrder()).asDoubleBuffer();
    loss = numbers.get();
    numbers.get(weights).get(gradient);
    while (numbers.hasRemaining()) {
      double[][] pair = new double[2][WEIGHTS];
      numbers.get(pair[0]).get(pair[1]);
      pairs.addLast(pair);
    }
  }

  private static double dot(double[] one, double[] other) {
    double sum = 0;
    for (int at = 0; at < one.length; at++) {
      sum += one[at] * other[at];
    }
    return sum;
  }

  private static double[] plus(double[] one, double factor, double[] other) {
    double[] sum = one.clone();
    for (int at = 0; at < sum.length; at++) {
      sum[at] += factor * other[at];
    }
    return sum;
  }

  /**
   * e^-x and log(1 + e^-x) for an x from 0 on, by sums, products and quotients alone: these have
   * the same bits in all languages, and what their libraries make of exp and log hasn't.
   */
  private static double[] decay(double x) {
    double small = Math.min(x, 40) / 64; // beyond 40 nothing of it is left
    double power = 1;
    for (int n = 16; n > 0; n--) {
      power = 1 + power * small / n;
    }
    for (int turn = 0; turn < 6; turn++) {
      power *= power;
    }
    double decay = 1 / power;
    double z = decay / (2 + decay);
    double series = 0;
    for (int k = 17; k >= 0; k--) {
      series = series * z * z + 1.0 / (2 * k + 1);
    }
    return new double[] {decay, 2 * z * series};
  }

  /** Mean loss over the rows of all ranks; its gradient is put into the array. */
  private double evaluate(double[] at, double[] slope) {
    double[] sums = new double[WEIGHTS + 2]; // the gradient's sum, the loss's sum, and the number of rows
    for (double[] row : table) {
      double label = row[0] > 0 ? 1 : 0;
      double score = 0;
      for (int column = 1; column < WEIGHTS; column++) {
        score += at[column] * row[column];
      }
      score += at[0];
      double[] decay = decay(Math.abs(score));
      double error = (score > 0 ? 1 / (1 + decay[0]) : decay[0] / (1 + decay[0])) - label;
      sums[0] += error;
      for (int column = 1; column < WEIGHTS; column++) {
        sums[column] += error * row[column];
      }
      // log(1 + e^score) - label * score, without overflow.
      sums[WEIGHTS] += Math.max(score, 0) + decay[1] - label * score;
      sums[WEIGHTS + 1] += 1;
    }
    ranks.allreduce(sums, Reduction.SUM);
    double count = sums[WEIGHTS + 1];
    for (int column = 0; column < WEIGHTS; column++) {
      slope[column] = sums[column] / count + PENALTY * at[column];
    }
    return sums[WEIGHTS] / count + 0.5 * PENALTY * dot(at, at);
  }

  /**
   * The two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.4): downhill,
   * bent by the curvature.
   */
  private double[] direction() {
    double[] way = gradient;
    Deque<Double> factors = new ArrayDeque<>();
    for (Iterator<double[][]> each = pairs.descendingIterator(); each.hasNext(); ) {
      double[][] pair = each.next();
      factors.push(dot(pair[0], way) / dot(pair[0], pair[1]));
      way = plus(way, -factors.peek(), pair[1]);
    }
    if (!pairs.isEmpty()) {
      double[][] newest = pairs.getLast();
      double scale = dot(newest[0], newest[1]) / dot(newest[1], newest[1]);
      way = Arrays.stream(way).map(value -> value * scale).toArray();
    }
    for (double[][] pair : pairs) {
      way = plus(way, factors.pop() - dot(pair[1], way) / dot(pair[0], pair[1]), pair[0]);
    }
    return Arrays.stream(way).map(value -> -value).toArray();
  }

  /** One iteration: a direction, and a step along it that is halved until the loss falls enough (Armijo). */
  private void improve() {
    double[] way = direction();
    double length = 1;
    for (int turn = 0; turn < 30; turn++, length *= 0.5) {
      double[] at = plus(weights, length, way);
      double[] slope = new double[WEIGHTS];
      double reached = evaluate(at, slope);
      if (reached > loss + 1e-4 * length * dot(gradient, way)) {
        continue;
      }
      double[][] pair = {plus(at, -1, weights), plus(slope, -1, gradient)};
      if (dot(pair[0], pair[1]) > 1e-12) {
        pairs.addLast(pair);
        if (pairs.size() > MEMORY) {
          pairs.removeFirst();
        }
      }
      weights = at;
      gradient = slope;
      loss = reached;
      return;
    }
  }
}
