package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.time.Duration;
import org.apache.spark.sql.SparkSession;

/**
 * A training that must end with an error, soon, and without any task being tried again.
 *
 * @param error what it ended with
 * @param seconds how long that took
 */
record Refusal(Exception error, double seconds) {
  /** Longer than any wait that these tests configure; a call that takes longer hangs. */
  private static final Duration LIMIT = Duration.ofSeconds(300);

  private static final int ROUNDS = 4;

  /** A short training of a recipe in this session, to be spoilt by the test. */
  static RejoinRun run(SparkSession spark, Recipe recipe) {
    return new RejoinRun(spark, recipe, 3, ROUNDS);
  }

  /** Trains, and fails if that works, or if any task is tried again. */
  static Refusal of(RejoinRun run) {
    return withAtMost(0, run);
  }

  /** The same where so many tasks may be tried again. */
  static Refusal withAtMost(int retries, RejoinRun run) {
    return withAtMost(retries, run, new RunFacts());
  }

  /** The same, with the caller's own counts. */
  static Refusal withAtMost(int retries, RejoinRun run, RunFacts facts) {
    long start = System.nanoTime();
    Exception error =
        assertThrows(
            Exception.class,
            () -> Deadline.within(LIMIT, "a refusal", Sessions.cluster(), () -> run.train(facts)),
            () -> "it works; events: " + run.events());
    double seconds = (System.nanoTime() - start) / 1e9;
    int retried = facts.counts().tasksRetried();
    assertTrue(
        retried <= retries,
        retried + " tasks were tried again, expected at most " + retries + ": " + error);
    return new Refusal(error, seconds);
  }

  /** It is one of ours with this code, and says all this. */
  Refusal says(RejoinException.Code code, String... parts) {
    RejoinException ours = assertInstanceOf(RejoinException.class, error, () -> trace(error));
    assertEquals(code, ours.code(), ours.getMessage());
    return says(parts);
  }

  /** The error says all this, wherever it comes from. */
  Refusal says(String... parts) {
    for (String part : parts) {
      assertTrue(
          String.valueOf(error.getMessage()).contains(part),
          "expected \"" + part + "\" in: " + error);
    }
    return this;
  }

  private static String trace(Exception error) {
    java.io.StringWriter text = new java.io.StringWriter();
    error.printStackTrace(new java.io.PrintWriter(text));
    return text.toString();
  }

  /** A training in this session works (still). */
  static void nextFitWorks(SparkSession spark) throws Exception {
    RejoinRun next = run(spark, Recipe.BINARY);
    String digest =
        Deadline.within(LIMIT, "the next training", Sessions.cluster(), next::train).digest();
    assertEquals(64, digest.length());
  }
}
