package io.rejoin.elastic;

import io.rejoin.Reduction;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Counts how often each sample is in the state, in each epoch, whatever ranks come and go. The
 * argument is the world that is waited for after the first batch, if any is.
 */
public final class CountingProgram {
  private static final int SIZE = 173;
  private static final int EPOCHS = 3;

  private CountingProgram() {}

  public static void main(String[] arguments) throws Exception {
    int least = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 0;
    long[] seen = new long[EPOCHS * SIZE];
    ElasticSampler sampler = new ElasticSampler(SIZE, 4, true);
    AtomicInteger resets = new AtomicInteger();
    State state = new State().keep("seen", seen).keep("sampler", sampler);
    state.onReset(resets::incrementAndGet);
    Elastic.run(
        "counts 1",
        state,
        ranks -> {
          while (sampler.epoch() < EPOCHS) {
            int begin = sampler.epoch() * SIZE;
            for (int[] mine : sampler.batches(ranks, 5)) {
              long[] counts = new long[SIZE];
              for (int sample : mine) {
                counts[sample]++;
              }
              ranks.allreduce(counts, Reduction.SUM);
              for (int sample = 0; sample < SIZE; sample++) {
                seen[begin + sample] += counts[sample];
              }
              state.commit();
              while (ranks.world() < least) {
                ranks.barrier();
                state.commit();
              }
            }
          }
          return null;
        });
    System.out.println(
        "seen "
            + Arrays.toString(Arrays.stream(seen).distinct().sorted().toArray())
            + ", begun again "
            + resets.get());
  }
}
