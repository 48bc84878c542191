import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.elastic.ElasticSampler;
import io.rejoin.elastic.State;
import java.util.Random;

/**
 * Logistic regression on made-up rows, in a world whose size changes: each sample is in the model once in each epoch.
 *
 * <pre>rejoin run -n 2 --min 2 --max 4 --discovery ./slots.sh --
 *   java -cp jvm-core/build/libs/* examples/java/Elastic.java</pre>
 *
 * {@code slots.sh} prints the slots that there are, as {@code localhost:4}. Change what it prints, or kill
 * ranks. The argument is the number of epochs.
 */
public final class Elastic {
  private static final int ROWS = 2000;
  private static final int COLUMNS = 8;
  private static final int BATCH = 16;

  private final double[][] rows = new double[ROWS][];
  private final double[] labels = new double[ROWS];
  private final int epochs;

  // What is committed.
  private final double[] weights = new double[COLUMNS];
  private final double[] samples = new double[1];
  private final ElasticSampler sampler = new ElasticSampler(ROWS);
  private final State state =
      new State().keep("weights", weights).keep("samples", samples).keep("sampler", sampler);

  private Elastic(int epochs) {
    this.epochs = epochs;
    Random random = new Random(1);
    for (int row = 0; row < ROWS; row++) {
      rows[row] = random.doubles(COLUMNS, -1, 1).toArray();
      double sum = 0;
      for (int column = 0; column < COLUMNS; column++) {
        sum += (column + 1) * rows[row][column];
      }
      labels[row] = sum > 0 ? 1 : 0;
    }
  }

  public static void main(String[] arguments) throws Exception {
    Elastic program = new Elastic(arguments.length > 0 ? Integer.parseInt(arguments[0]) : 5);
    io.rejoin.elastic.Elastic.run("elastic logistic 1", program.state, program::train);
    System.out.printf("the model has seen %.0f samples in %d epochs%n", program.samples[0], program.epochs);
  }

  /** Called again whenever the world has changed, with the state as it was committed last. */
  private Void train(Communicator ranks) {
    System.out.printf("rank %d of %d, epoch %d%n", ranks.rank(), ranks.world(), sampler.epoch());
    while (sampler.epoch() < epochs) {
      for (int[] mine : sampler.batches(ranks, BATCH)) { // at the tail there may be none
        double[] sums = new double[COLUMNS + 1];
        for (int sample : mine) {
          double wrong = 1 / (1 + Math.exp(-at(sample))) - labels[sample];
          for (int column = 0; column < COLUMNS; column++) {
            sums[column] += wrong * rows[sample][column];
          }
        }
        sums[COLUMNS] = mine.length;
        ranks.allreduce(sums, Reduction.SUM);
        for (int column = 0; column < COLUMNS; column++) {
          weights[column] -= 0.5 * sums[column] / sums[COLUMNS];
        }
        samples[0] += sums[COLUMNS];
        state.commit();
      }
    }
    return null;
  }

  private double at(int row) {
    double sum = 0;
    for (int column = 0; column < COLUMNS; column++) {
      sum += weights[column] * rows[row][column];
    }
    return sum;
  }
}
