package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What ranks say to one another before a batch. */
class ContributionTest {
  private static final int WORLD = 3;

  @Test
  void short_contributions_come_to_all_ranks_in_one_collective() throws Exception {
    assertEquals(List.of("0 1 2 | 1", "0 1 2 | 1", "0 1 2 | 1"), exchanged(2, 2, 2));
  }

  @Test
  void with_a_long_contribution_it_takes_two_collectives() throws Exception {
    assertEquals(List.of("0 1 2 | 2", "0 1 2 | 2", "0 1 2 | 2"), exchanged(1, 100, 0));
  }

  @Test
  void what_a_rank_says_now_fits_into_what_was_recorded_of_it() {
    List<byte[]> said = new ArrayList<>();
    Contribution before = contribution(1, 8);
    Contribution other = contribution(0, 1);
    Contribution.exchange(before, 2, part -> first(said, part, other));
    int recorded = said.get(1).length;

    said.clear();
    List<Contribution> all =
        Contribution.exchange(contribution(1, 20), 2, part -> replayed(said, part, before, other));

    assertEquals(recorded, said.get(1).length, "as long as all others give theirs");
    assertEquals(List.of(1, 0), shares(all));
    assertEquals("1", all.get(1).digest);
    assertEquals(List.of(false, true), List.of(all.get(0).isCut, all.get(1).isCut));
  }

  /** The first collective gives what rank 1 said then; the second takes what it says now. */
  private static byte[] replayed(
      List<byte[]> said, byte[] part, Contribution before, Contribution other) {
    boolean isFirst = said.isEmpty();
    List<byte[]> then = new ArrayList<>();
    if (isFirst) {
      Contribution.exchange(before, 2, one -> first(then, one, other));
    }
    said.add(part);
    return both(other, isFirst ? then.get(0) : part);
  }

  private static byte[] first(List<byte[]> said, byte[] part, Contribution other) {
    said.add(part);
    return both(other, part);
  }

  /** What rank 0 says, in a part as long as rank 1's. */
  private static byte[] both(Contribution other, byte[] part) {
    byte[] both = new byte[2 * part.length];
    List<byte[]> parts = new ArrayList<>();
    Contribution.exchange(
        other,
        1,
        one -> {
          parts.add(one);
          return one;
        });
    System.arraycopy(parts.get(0), 0, both, 0, Math.min(part.length, parts.get(0).length));
    System.arraycopy(part, 0, both, part.length, part.length);
    return both;
  }

  /** Of each rank, with so many shares: whose contributions it has, and after how many calls. */
  private static List<String> exchanged(int... shares) throws Exception {
    return Ranks.all(
        WORLD,
        ranks -> {
          int[] calls = {0};
          Contribution own = contribution(ranks.rank(), shares[ranks.rank()]);
          List<Contribution> all =
              Contribution.exchange(
                  own,
                  WORLD,
                  part -> {
                    calls[0]++;
                    return ranks.allgather(part);
                  });
          // A rank that left now would be waited for: others may still need its part.
          ranks.finish(new byte[0]);
          assertEquals(IntStream.of(shares).boxed().collect(Collectors.toList()), shares(all));
          String whose = all.stream().map(one -> one.digest).collect(Collectors.joining(" "));
          return whose + " | " + calls[0];
        });
  }

  private static List<Integer> shares(List<Contribution> all) {
    return all.stream().map(one -> one.shares.size()).collect(Collectors.toList());
  }

  private static Contribution contribution(int rank, int shares) {
    List<Share> all = new ArrayList<>();
    for (int i = 0; i < shares; i++) {
      all.add(new Share("a split of a source, number " + i, 10L * i, i, 77L * i));
    }
    return new Contribution(all, false, Integer.toString(rank));
  }
}
