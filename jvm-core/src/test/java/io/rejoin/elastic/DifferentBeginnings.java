package io.rejoin.elastic;

import io.rejoin.Reduction;
import java.util.Arrays;
import java.util.Random;

/** Each process begins with values of its own, one of which has a length of its own. */
public final class DifferentBeginnings {
  private DifferentBeginnings() {}

  /** Text that keeps itself. */
  private static final class Text implements Value {
    private byte[] text;

    Text(int length) {
      text = new byte[length];
      Arrays.fill(text, (byte) 'x');
    }

    @Override
    public byte[] save() {
      return text.clone();
    }

    @Override
    public void restore(byte[] saved) {
      text = saved.clone();
    }
  }

  public static void main(String[] arguments) throws Exception {
    Random random = new Random();
    double[] weights = random.doubles(50).toArray();
    long[] steps = new long[1];
    double[] ends = new double[2];
    Text text = new Text(1 + random.nextInt(1000));
    State state =
        new State()
            .keep("weights", weights)
            .keep("steps", steps)
            .keep("text", text)
            .keep("ends", ends);
    Elastic.run(
        "different beginnings 1",
        state,
        ranks -> {
          while (steps[0] < 10) {
            double[] most = weights.clone();
            double[] least = weights.clone();
            ranks.allreduce(most, Reduction.MAX);
            ranks.allreduce(least, Reduction.MIN);
            if (!Arrays.equals(most, least)) {
              throw new AssertionError("ranks have other weights in step " + steps[0]);
            }
            weights[0] += 1;
            steps[0]++;
            if (steps[0] == 5) {
              // What ranks don't agree about, until they do.
              ends[1] = random.nextDouble();
              state.sync();
            }
            state.commit();
          }
          return null;
        });
    System.out.println(
        "digest " + Arrays.hashCode(weights) + " " + text.text.length + " " + ends[1]);
  }
}
