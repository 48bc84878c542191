package io.rejoin.elastic;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ElasticSamplerTest {
  private static List<int[]> epoch(ElasticSampler sampler, int rank, int world, int batch) {
    List<int[]> batches = new ArrayList<>();
    sampler.batches(rank, world, batch).forEach(batches::add);
    return batches;
  }

  @Test
  void at_the_tail_ranks_have_fewer_samples_or_none_and_all_have_as_many_batches() {
    int[][] sizes = new int[3][];
    for (int rank = 0; rank < 3; rank++) {
      ElasticSampler sampler = new ElasticSampler(14, 1, false);
      sizes[rank] = epoch(sampler, rank, 3, 4).stream().mapToInt(batch -> batch.length).toArray();
      assertEquals(1, sampler.epoch());
      assertEquals(0, sampler.done());
    }
    assertArrayEquals(new int[][] {{4, 2}, {4, 0}, {4, 0}}, sizes);
  }

  @Test
  void each_epoch_has_an_order_of_its_own_that_follows_from_the_seed() {
    ElasticSampler sampler = new ElasticSampler(100, 7, true);
    int[] first = epoch(sampler, 0, 1, 100).get(0);
    int[] second = epoch(sampler, 0, 1, 100).get(0);
    assertFalse(Arrays.equals(first, second));
    assertArrayEquals(first, epoch(new ElasticSampler(100, 7, true), 0, 1, 100).get(0));
    assertFalse(Arrays.equals(first, epoch(new ElasticSampler(100, 8, true), 0, 1, 100).get(0)));
    int[] sorted = second.clone();
    Arrays.sort(sorted);
    assertArrayEquals(
        new ElasticSampler(100, 0, false).batches(0, 1, 100).iterator().next(), sorted);
  }

  @Test
  void the_state_of_a_sampler_of_other_samples_is_refused_with_both() {
    byte[] saved = new ElasticSampler(100, 3, true).save();
    new ElasticSampler(100, 3, true).restore(saved);
    for (ElasticSampler other :
        Arrays.asList(
            new ElasticSampler(101, 3, true),
            new ElasticSampler(100, 4, true),
            new ElasticSampler(100, 3, false))) {
      RejoinException refused = assertThrows(RejoinException.class, () -> other.restore(saved));
      assertEquals(RejoinException.Code.BAD_ARGUMENT, refused.code());
      String said = refused.getMessage();
      assertTrue(said.contains("of 100 samples with the seed 3, shuffled"), said);
    }
  }

  /**
   * Ranks that step together, commit now and then, and begin again from the newest commit in
   * another world: what is committed has each sample once in each epoch.
   */
  @Test
  void each_sample_is_committed_once_in_each_epoch_whatever_comes_and_goes() {
    for (int seed = 0; seed < 500; seed++) {
      Random random = new Random(seed);
      int size = 1 + random.nextInt(60);
      int batch = 1 + random.nextInt(8);
      int epochs = 1 + random.nextInt(3);
      int[][] committed = new int[epochs][size];
      byte[] kept = new ElasticSampler(size, seed, seed % 2 == 0).save();
      boolean isOver = false;
      while (!isOver) {
        int world = 1 + random.nextInt(5);
        List<ElasticSampler> ranks = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
          ranks.add(new ElasticSampler(size, seed, seed % 2 == 0));
          ranks.get(rank).restore(kept);
        }
        int[][] seen = new int[epochs][size];
        int steps = random.nextInt(40);
        while (steps > 0 && ranks.get(0).epoch() < epochs) {
          int epoch = ranks.get(0).epoch();
          List<Iterator<int[]>> dealt = new ArrayList<>();
          for (int rank = 0; rank < world; rank++) {
            dealt.add(ranks.get(rank).batches(rank, world, batch).iterator());
          }
          while (dealt.get(0).hasNext() && steps-- > 0) {
            for (Iterator<int[]> its : dealt) {
              assertTrue(its.hasNext(), "all have as many batches");
              for (int sample : its.next()) {
                seen[epoch][sample]++;
              }
            }
            if (random.nextInt(3) == 0 || ranks.get(0).epoch() == epochs) {
              for (ElasticSampler its : ranks) {
                assertArrayEquals(ranks.get(0).save(), its.save());
              }
              kept = ranks.get(0).save();
              for (int of = 0; of < epochs; of++) {
                for (int sample = 0; sample < size; sample++) {
                  committed[of][sample] += seen[of][sample];
                }
              }
              seen = new int[epochs][size];
              isOver = ranks.get(0).epoch() == epochs;
            }
          }
        }
      }
      for (int[] epoch : committed) {
        assertTrue(Arrays.stream(epoch).allMatch(times -> times == 1), "seed " + seed);
      }
    }
  }

  @Test
  void no_samples_and_no_batches_are_refused() {
    for (Runnable wrong :
        List.<Runnable>of(
            () -> new ElasticSampler(0), () -> new ElasticSampler(3).batches(0, 1, 0))) {
      RejoinException refused = assertThrows(RejoinException.class, wrong::run);
      assertEquals(RejoinException.Code.BAD_ARGUMENT, refused.code());
    }
  }
}
