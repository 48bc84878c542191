package io.rejoin.it;

import io.rejoin.TrainingEvent.Kind;
import java.time.Duration;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;

/**
 * The undisturbed training of a recipe: what a fault must not change, and where faults can be
 * injected. Early stopping ends some before the rounds that were asked for, and a recipe sends more
 * or less in a round than another.
 *
 * @param digest of the model
 * @param rounds that were trained
 * @param bytes that every rank's worker sends in every round, at least; one of {@link #LADDER}
 */
record Calm(String digest, int rounds, long bytes) {
  /** Bytes of a round that are tried, ascending. */
  private static final long[] LADDER = {1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000};

  /** Trains; a checkpoint after every round, so that a version is a round. */
  static Calm of(RejoinRun run, Duration limit) throws Exception {
    int workers = run.workers();
    int rounds = run.rounds();
    int rules = 0;
    for (int rank = 0; rank < workers; rank++) {
      for (int round = 0; round < rounds; round++) {
        for (long bytes : LADDER) {
          run.fault(Fault.of(rank).version(round, bytes).notice());
          rules++;
        }
      }
    }
    String what = "undisturbed " + run.recipe();
    String digest = Deadline.within(limit, what, Sessions.cluster(), () -> run.train().digest());
    int trained =
        (int)
            run.events().stream()
                .filter(event -> event.kind() == Kind.VERSION_ENTERED)
                .mapToLong(event -> event.number("round"))
                .max()
                .orElseThrow();
    Set<Long> reported =
        run.events().stream()
            .filter(event -> event.kind() == Kind.FAULT_FIRED)
            .map(event -> event.number("id"))
            .collect(Collectors.toSet());
    long most = 0;
    for (int step = 0; step < LADDER.length; step++) {
      for (int rule = step; rule < rules; rule += LADDER.length) {
        boolean trainedAtAll = rule / LADDER.length % rounds < trained;
        if (trainedAtAll && !reported.contains((long) rule)) {
          if (most == 0) {
            throw new AssertionError(what + ": a round sends fewer bytes than " + LADDER[0]);
          }
          return new Calm(digest, trained, most);
        }
      }
      most = LADDER[step];
    }
    return new Calm(digest, trained, most);
  }

  /** Such a training, to be disturbed. */
  static RejoinRun run(SparkSession spark, Recipe recipe, int workers, int rounds) {
    return new RejoinRun(spark, recipe, workers, rounds)
        .setting("spark.rejoin.checkpoint.rounds", "1");
  }

  /** The round in the middle. */
  int middle() {
    return (rounds - 1) / 2;
  }

  /** The last round. */
  int last() {
    return rounds - 1;
  }

  /** The round after this share (0 to 1) of all. */
  int round(double share) {
    return Math.min(last(), (int) (share * rounds));
  }

  /** Well inside a round. */
  long inside() {
    return byteOf(0.8);
  }

  /** The byte of any round after this share (0 to 1) of those that every round sends. */
  long byteOf(double share) {
    return (long) (share * bytes);
  }
}
