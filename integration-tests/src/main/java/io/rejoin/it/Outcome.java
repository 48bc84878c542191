package io.rejoin.it;

/**
 * What became of one training.
 *
 * @param digest of the model, as {@link Digest} makes it; null when there is none
 * @param millis from fit to model, or until it was given up
 * @param executors how many Spark started during it
 * @param executorMillis how long executors were there during it, summed over them
 * @param tasks how many tasks Spark started during it
 * @param bytesAgain shuffled, read or copied once more
 * @param roundsAgain rounds that had been computed before, summed over the ranks
 * @param backMillis from the first kill until the training was beyond the round of each; negative
 *     without a kill
 * @param trouble null, or what is wrong with it
 */
public record Outcome(
    String digest,
    long millis,
    int executors,
    long executorMillis,
    int tasks,
    long bytesAgain,
    int roundsAgain,
    long backMillis,
    String trouble) {

  /** One without a model. */
  public static Outcome none(long millis, int roundsAgain, String trouble) {
    return new Outcome(null, millis, 0, 0, 0, 0, roundsAgain, -1, trouble);
  }
}
