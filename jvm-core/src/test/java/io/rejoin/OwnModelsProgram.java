package io.rejoin;

import java.util.Arrays;
import java.util.Optional;

/**
 * Ranks with models of their own, for a test that kills some for good: each says what it is given.
 */
public final class OwnModelsProgram {
  private OwnModelsProgram() {}

  private static byte[] own(int rank, int version) {
    return new byte[] {(byte) rank, (byte) version};
  }

  public static void main(String[] arguments) {
    Optional<Communicator> joined = Communicator.launched("own models 1");
    while (joined.isPresent()) {
      Communicator ranks = joined.get();
      try {
        train(ranks);
        ranks.close();
        return;
      } catch (RejoinException error) {
        if (error.code() != RejoinException.Code.RESIZED) {
          throw error;
        }
      }
      joined = ranks.joinAgain();
    }
  }

  private static void train(Communicator ranks) {
    int version = ranks.load().version();
    Optional<Former> former = ranks.former();
    int was = former.map(there -> there.rank().orElse(-1)).orElse(ranks.rank());
    if (version > 0 && !Arrays.equals(own(was, version), ranks.loadOwn().orElse(null))) {
      throw new IllegalStateException("the own model of rank " + was);
    }
    for (int gone : former.map(Former::given).orElse(java.util.List.of())) {
      byte[] given = ranks.loadOwnOf(gone).orElseThrow(IllegalStateException::new);
      String right = Arrays.equals(own(gone, version), given) ? "right" : "wrong";
      System.out.println("rank " + ranks.rank() + ", " + former.get() + ", " + right);
    }
    for (; version < 4; version++) {
      ranks.barrier();
      ranks.checkpoint(new byte[] {1}, own(ranks.rank(), version + 1));
    }
    try {
      ranks.loadOwnOf(99);
    } catch (RejoinException refused) {
      System.out.println("refused by " + refused.code());
    }
    ranks.finish(new byte[] {2});
  }
}
