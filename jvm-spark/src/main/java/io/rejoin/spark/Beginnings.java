package io.rejoin.spark;

import io.rejoin.Faults;
import io.rejoin.RejoinException;
import io.rejoin.Words;
import io.rejoin.settings.SettingValues;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets a training begin again when input is lost and comes back as other rows. These may not go to
 * the ranks that trained on the old ones, so nothing is kept: the new training plans its data set
 * anew, stores new pages, and is a job of its own, with an id and a secret that no rank and no
 * checkpoint of the old one has.
 */
final class Beginnings {
  private static final Logger LOG = LoggerFactory.getLogger(Beginnings.class);

  private final boolean again;
  private final int most;
  private final String mostSetting;
  private final Faults faults;

  /** {@code faults} are of the first training; each fires once. */
  Beginnings(SettingValues settings, Surroundings surroundings, Faults faults) {
    this.again = settings.text(SparkSettings.INPUT_LOST).equals("restart");
    this.most = surroundings.deathsRetried();
    this.mostSetting = surroundings.deathsSetting();
    this.faults = faults == null ? Faults.none() : faults;
  }

  /**
   * Trains.
   *
   * @param training one training from its data set to its model, with these faults. It uses no plan
   *     of an earlier one, and frees its pages itself
   * @throws RejoinException the training's; INPUT_LOST if it may not begin again, or not once more:
   *     input is lost by deaths, so it may be lost as often as a rank may die
   */
  <M> M train(Function<Faults, M> training) {
    for (int number = 0; ; number++) {
      try {
        return training.apply(number > 0 ? Faults.none() : faults);
      } catch (RejoinException lost) {
        if (lost.code() != RejoinException.Code.INPUT_LOST || !again) {
          throw lost;
        }
        if (number == most) {
          throw new RejoinException(
              lost.code(),
              lost.text()
                  + ". A training begins again as often as a rank may die, which has been done ("
                  + Words.times(most)
                  + ", "
                  + mostSetting
                  + ")",
              lost);
        }
        LOG.warn(
            "the training begins again at round 0 on new pages, {} so far and {} at the most ({}),"
                + " because its input is lost (spark.rejoin.input.lost): {}",
            Words.times(number + 1),
            Words.times(most),
            mostSetting,
            lost.text());
      }
    }
  }
}
